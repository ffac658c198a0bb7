"""A job that steward runs itself: what was submitted, the states it went through, its attempts.

One table has all transitions. `job_of` gives the `Job` that policies see of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Literal

from steward.errors import StewardError
from steward.model.identity import DecisionId, GpuId, JobId, NodeId, TenantId
from steward.model.job import Checkpointing, Job, JobChange, JobShape, JobState

__all__ = [
    "JOB_ID",
    "TRANSITIONS",
    "Attempt",
    "AttemptLook",
    "Dependency",
    "JobNote",
    "JobSpec",
    "LifeEvent",
    "LifeState",
    "ManagedJob",
    "SavedState",
    "job_of",
]


MOST_NOTES = 100  # of a job, the newest
JOB_ID = r"[0-9]{1,18}(_[0-9]{1,18})?"  # it becomes the name of a folder


class LifeState(Enum):
    """Where a job is in its life, on every engine. Finished, failed and cancelled are ends."""

    SUBMITTED = "submitted"  # waits for other jobs
    HELD = "held"  # waits for a person
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    RESUMED = "resumed"
    MIGRATED = "migrated"
    RESIZED = "resized"
    SAVING = "saving"
    SUSPENDED = "suspended"  # what it had on its GPU is in host memory; its GPU is lent
    LENT = "lent"  # saved and stopped; its GPUs are lent and come back to it
    PREEMPTED = "preempted"  # stopped, and waits to be resumed
    LOST = "lost"  # its processes vanished without an exit status
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in (LifeState.FINISHED, LifeState.FAILED, LifeState.CANCELLED)

    @property
    def runs(self) -> bool:
        """Whether its processes are there, as far as is known."""
        return self in _RUNS

    @property
    def holds_gpus(self) -> bool:
        return self.runs or self in _KEEPS_GPUS


_RUNS = frozenset(
    {
        LifeState.RUNNING,
        LifeState.RESUMED,
        LifeState.MIGRATED,
        LifeState.RESIZED,
        LifeState.SAVING,
    }
)
_KEEPS_GPUS = frozenset({LifeState.STARTING, LifeState.SUSPENDED, LifeState.LENT})
_GONE = frozenset({*LifeState} - _RUNS - _KEEPS_GPUS - {LifeState.SUBMITTED, LifeState.HELD})
_AFTER_RUN = _GONE - {LifeState.WAITING}
_QUEUED = frozenset({LifeState.STARTING, LifeState.HELD, LifeState.CANCELLED})
TRANSITIONS: Mapping[LifeState, frozenset[LifeState]] = MappingProxyType(
    {
        LifeState.SUBMITTED: frozenset({LifeState.HELD, LifeState.WAITING, LifeState.CANCELLED}),
        LifeState.HELD: frozenset(
            {LifeState.SUBMITTED, LifeState.WAITING, LifeState.PREEMPTED, LifeState.CANCELLED}
        ),
        LifeState.WAITING: _QUEUED,
        LifeState.PREEMPTED: _QUEUED | {LifeState.LENT},
        LifeState.STARTING: (_RUNS - {LifeState.SAVING}) | _GONE,
        **{
            state: _AFTER_RUN | {LifeState.SAVING, LifeState.SUSPENDED}
            for state in _RUNS - {LifeState.SAVING}
        },
        LifeState.SAVING: _AFTER_RUN | {LifeState.RUNNING},
        LifeState.SUSPENDED: _AFTER_RUN | {LifeState.RESUMED},
        LifeState.LENT: _QUEUED | {LifeState.PREEMPTED},
        LifeState.LOST: frozenset({LifeState.WAITING, LifeState.FAILED, LifeState.CANCELLED}),
        LifeState.FINISHED: frozenset(),
        LifeState.FAILED: frozenset(),
        LifeState.CANCELLED: frozenset(),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """Another job that has to have begun (`after`), ended, ended well, or failed before."""

    job: JobId
    when: Literal["after", "afterany", "afterok", "afternotok"] = "afterok"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What a user submitted. With `script`, `argv` has its arguments, else program and arguments.

    `user`, `uid` and `gid` are the owner's as the kernel vouched for them, never as claimed.
    """

    argv: tuple[str, ...]
    folder: str
    shape: JobShape
    tenant: TenantId
    user: str
    uid: int
    gid: int
    script: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    name: str = ""
    priority: int = 0
    deadline_s: float | None = None
    time_limit_s: float | None = None
    requeue: bool = False  # after it was lost; one that can save is always requeued
    array: str = ""  # id that the tasks of an array share
    index: int | None = None  # of this task
    dependencies: tuple[Dependency, ...] = ()
    hold: bool = False
    output: str = ""  # empty: in the job's folder
    error: str = ""  # empty: where the output goes
    warn_signal: str = ""  # sent `warn_before_s` before the time limit
    warn_before_s: float = 60.0
    max_slowdown_share: float = 0.0  # that its owner allows for saving energy
    token: str = ""  # of the submission: the same token is the same job


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeEvent:
    """One line of a job's life. Everybody may read `why`; `detail` is its owner's.

    A detail is what came from the job or names what it runs: a path, the text of an error.
    """

    t_s: float
    state: LifeState
    why: str
    decision: DecisionId | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One run of a job on some GPUs or slots. `decision` is the cause, looked for before a retry.

    `stop` is what was asked of it: nothing, to be cancelled, to go back into the queue, or to go on
    on `next_gpus`, which it holds from then on. `arrives` is what the job is once a moved attempt
    runs.
    """

    number: int
    decision: DecisionId
    gpus: tuple[GpuId, ...]
    began_s: float
    ended_s: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    why: str = ""
    ran_s: float | None = None  # its processes, without what starting them took
    cpu_s: float | None = None
    peak_memory_bytes: int | None = None
    stop: Literal["", "cancel", "preempt", "move"] = ""
    stop_why: str = ""
    stop_decision: DecisionId | None = None
    next_gpus: tuple[GpuId, ...] = ()
    arrives: Literal["", "migrated", "resized"] = ""

    @property
    def saves_and_stops(self) -> bool:
        """Whether it was asked to save its work and stop, and the job is to go on."""
        return self.stop in ("preempt", "move")

    @property
    def held(self) -> tuple[GpuId, ...]:
        """What nobody else may have while it runs."""
        more = self.next_gpus if self.stop == "move" else ()
        return tuple(dict.fromkeys((*self.gpus, *more)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLook:
    """What an engine sees of an attempt.

    `unclaimed`: no process has it yet. `abandoned`: and this steward has started none that could,
    or it is gone; one of a steward that was killed may still come. `revoked`: none ever will.
    `lost`: its processes are gone without an exit status.
    """

    phase: Literal["unclaimed", "abandoned", "revoked", "running", "ended", "lost"]
    why: str = ""
    detail: str = ""  # as of a `LifeEvent`
    exit_code: int | None = None
    signal: int | None = None
    ended_s: float | None = None
    ran_s: float | None = None  # its processes
    cpu_s: float | None = None
    peak_memory_bytes: int | None = None
    notes: tuple[tuple[str, str], ...] = ()  # why and detail of what its owner should know


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNote:
    """What happened to a job without changing its state; `why` and `detail` as of a `LifeEvent`."""

    t_s: float
    attempt: int
    why: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedState:
    """A checkpoint that a job reported as complete."""

    t_s: float
    attempt: int
    step: int
    path: str
    size_bytes: int = 0
    seconds: float = 0.0
    verified: bool = False  # its files are all there, in the sizes of its manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedJob:
    """A job with its whole life. `checkpointing` is what it reported about itself."""

    id: JobId
    spec: JobSpec
    events: tuple[LifeEvent, ...]
    attempts: tuple[Attempt, ...] = ()
    checkpoints: tuple[SavedState, ...] = ()
    checkpointing: Checkpointing = field(default_factory=Checkpointing)
    notes: tuple[JobNote, ...] = ()

    @property
    def state(self) -> LifeState:
        return self.events[-1].state

    @property
    def submit_s(self) -> float:
        return self.events[0].t_s

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt, over or not."""
        return self.attempts[-1] if self.attempts else None

    @property
    def gpus(self) -> tuple[GpuId, ...]:
        """What it holds now."""
        return self.attempts[-1].held if self.attempts and self.state.holds_gpus else ()

    @property
    def exit_code(self) -> int | None:
        """Exit status as a shell gives it, 128 + N for a signal; None until it has ended."""
        if not self.state.ended:
            return None
        last = self.attempt
        if self.state is LifeState.FINISHED:
            return 0
        if last is None or (last.exit_code is None and last.signal is None):
            return 1
        code = 128 + last.signal if last.signal is not None else last.exit_code
        return code or 1

    def moved(
        self,
        t_s: float,
        state: LifeState,
        why: str,
        *,
        decision: DecisionId | None = None,
        detail: str = "",
    ) -> ManagedJob:
        """Return the job in its next state, or raise if there is no such transition."""
        if state not in TRANSITIONS[self.state]:
            possible = ", ".join(sorted(each.value for each in TRANSITIONS[self.state]))
            raise StewardError(
                f"it is {self.state.value} and cannot become {state.value}",
                where=f"job {self.id}",
                hint=f"possible now: {possible or 'nothing, it is over'}",
            )
        t_s = max(t_s, self.events[-1].t_s)  # a clock that was set back leaves the order as it is
        event = LifeEvent(t_s=t_s, state=state, why=why, decision=decision, detail=detail)
        return replace(self, events=(*self.events, event))

    def noted(self, t_s: float, notes: tuple[tuple[str, str], ...]) -> ManagedJob:
        """Return the job with the notes on its newest attempt that it does not have yet."""
        known = {(each.why, each.detail) for each in self.notes}
        number = self.attempts[-1].number if self.attempts else 0
        new = [
            JobNote(t_s=t_s, attempt=number, why=why, detail=detail)
            for why, detail in notes
            if (why, detail) not in known
        ]
        return replace(self, notes=(*self.notes, *new)[-MOST_NOTES:]) if new else self

    def with_attempt(self, attempt: Attempt) -> ManagedJob:
        """Return the job with its newest attempt added or replaced."""
        kept = tuple(each for each in self.attempts if each.number != attempt.number)
        return replace(self, attempts=(*kept, attempt))


_SEEN = {
    LifeState.FINISHED: JobState.COMPLETED,
    LifeState.FAILED: JobState.FAILED,
    LifeState.CANCELLED: JobState.CANCELLED,
}


def _seen(state: LifeState) -> JobState:
    if state.holds_gpus:
        return JobState.RUNNING
    return _SEEN.get(state, JobState.QUEUED)


def job_of(managed: ManagedJob, node: NodeId) -> Job:
    """Return what policies see. One that waits for a person or for other jobs is `held`."""
    spec, state = managed.spec, managed.state
    history: list[JobChange] = []
    for event in managed.events:
        seen = _seen(event.state)
        if not history or history[-1].state is not seen:
            history.append(JobChange(t_s=event.t_s, state=seen, why=event.why))
    starts = [line.t_s for line in history if line.state is JobState.RUNNING]
    last = managed.attempt if starts else None
    gpus = last.gpus if last is not None else ()
    seen = _seen(state)
    shape = spec.shape
    if seen is JobState.RUNNING:
        shape, gpus = replace(shape, gpus=len(gpus) or shape.gpus), managed.gpus
    return Job(
        id=managed.id,
        tenant=spec.tenant,
        shape=shape,
        submit_s=managed.submit_s,
        user=spec.user,
        name=spec.name,
        priority=spec.priority,
        deadline_s=spec.deadline_s,
        time_limit_s=spec.time_limit_s,
        state=seen,
        gpus=() if seen is JobState.QUEUED else gpus,
        nodes=(node,) if seen is JobState.RUNNING else (),
        start_s=starts[-1] if starts else None,
        end_s=managed.events[-1].t_s if state.ended else None,
        checkpointing=managed.checkpointing,
        max_slowdown_share=spec.max_slowdown_share,
        history=tuple(history),
        held=state in (LifeState.SUBMITTED, LifeState.HELD, LifeState.LOST),
    )
