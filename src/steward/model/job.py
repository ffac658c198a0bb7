"""Who works here and what they run: tenants with their share, jobs with their shape and history."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal

from steward.errors import StewardError
from steward.model.identity import GpuId, JobId, NodeId, TenantId
from steward.model.yielding import Yielding

__all__ = [
    "Checkpointing",
    "Job",
    "JobChange",
    "JobRequest",
    "JobShape",
    "JobState",
    "Past",
    "Tenant",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A group that shares the cluster: a guarantee of its own, and a part of the rest by weight."""

    id: TenantId
    weight: float = 1.0
    guaranteed_gpus: int = 0

    def __post_init__(self) -> None:
        if self.weight <= 0 or self.guaranteed_gpus < 0:
            raise StewardError(
                f"weight is {self.weight}, guaranteed GPUs are {self.guaranteed_gpus}",
                where=f"tenant {self.id}",
                hint="a weight is above 0 and a guarantee is 0 or more",
            )


class JobState(Enum):
    """Where a job is in its life. The last three are ends."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobShape:
    """What a job asks for. Memory is per GPU and is what must be free on a GPU that it shares."""

    gpus: int
    gpu_memory_bytes: int = 0
    cpus: int = 0
    memory_bytes: int = 0
    gpu_models: tuple[str, ...] = ()  # any when empty
    min_gpus: int = 0  # 0: as `gpus`
    max_gpus: int = 0  # 0: as `gpus`

    @property
    def gpu_range(self) -> tuple[int, int]:
        """The least and the most GPUs that it can go on with."""
        return self.min_gpus or self.gpus, self.max_gpus or self.gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A job that is about to be submitted: what an estimator may know of it."""

    shape: JobShape
    tenant: TenantId
    user: str = ""
    name: str = ""
    time_limit_s: float | None = None
    script: str = ""  # what it runs, as far as it is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointing:
    """What it costs to stop a job and go on later."""

    able: bool = False
    save_s: float = 0.0
    restore_s: float = 0.0
    every_s: float = 0.0  # 0: only when asked


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange:
    """One line of a job's history. `lost_s` is work that has to be done again."""

    t_s: float
    state: JobState
    why: str
    lost_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What a job's history says of the stretches that it has run and been stopped in."""

    ran_s: float  # run time of stretches that are over, without work that has to be done again
    stops: int  # how often it was sent back into the queue
    queued_s: float  # when it last came into the queue
    began_s: float | None  # when it last began to run


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job at one time. A collector hands on a new value whenever anything about it changed."""

    id: JobId
    tenant: TenantId
    shape: JobShape
    submit_s: float
    user: str = ""
    name: str = ""
    priority: int = 0
    script: str = ""  # what it runs, as far as its engine has it
    deadline_s: float | None = None  # when it should be done
    time_limit_s: float | None = None  # run time after which its engine ends it; None: unknown
    state: JobState = JobState.QUEUED
    gpus: tuple[GpuId, ...] = ()
    nodes: tuple[NodeId, ...] = ()  # where it runs, also where it holds no GPU; () is unknown
    gpu_shares: tuple[float, ...] = ()  # of each of them that it was given; empty: all of them
    start_s: float | None = None
    end_s: float | None = None
    checkpointing: Checkpointing = Checkpointing()
    max_slowdown_share: float = 0.0  # that its owner allows for saving energy; 0: leave it alone
    history: tuple[JobChange, ...] = ()
    held: bool = False  # waits for a person or another job: nothing is decided about it
    borrows: Literal["any", "own", "no"] = "any"  # from whom: all, jobs of the same user, nobody
    yielding: Yielding = field(default_factory=Yielding)

    def may_borrow_from(self, user: str) -> bool:
        """Return whether it may run on GPUs of a job of this user."""
        return self.borrows == "any" or (self.borrows == "own" and bool(user) and user == self.user)

    def changed(self, t_s: float, state: JobState, why: str, *, lost_s: float = 0.0) -> Job:
        """Return the job in its new state, with one more line of history."""
        line = JobChange(t_s=t_s, state=state, why=why, lost_s=lost_s)
        return replace(self, state=state, history=(*self.history, line))

    @property
    def past(self) -> Past:
        """Add up the history. A job whose collector keeps none has run from start to end."""
        ran_s, stops, queued_s = 0.0, 0, self.submit_s
        began_s = last_s = None if self.history else self.start_s
        for line in self.history:
            if line.state is JobState.RUNNING:
                began_s = last_s = line.t_s if began_s is None else began_s
            elif began_s is not None:
                ran_s += line.t_s - began_s
                began_s = None
                if line.state is JobState.QUEUED:
                    stops, queued_s = stops + 1, line.t_s
            ran_s -= line.lost_s
        if began_s is not None and self.end_s is not None:
            ran_s += self.end_s - began_s
        return Past(ran_s=max(ran_s, 0.0), stops=stops, queued_s=queued_s, began_s=last_s)
