"""What should be done, as values: typed actions with their reason, expectation, check and undo."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from steward.model.forecast import Forecast
from steward.model.identity import DecisionId, FindingId, GpuId, JobId, NodeId, TenantId
from steward.model.treatment import Treatment

__all__ = [
    "Action",
    "Autonomy",
    "CallBack",
    "Choice",
    "Decision",
    "DecisionState",
    "Drain",
    "Expectation",
    "Lend",
    "Preempt",
    "Receipt",
    "Ruling",
    "Start",
    "Tell",
    "Verdict",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lend:
    """Let `borrower` run on GPUs that `owner` holds but does not use, until `owner` wakes."""

    gpus: tuple[GpuId, ...]
    owner: JobId
    borrower: JobId
    type: Literal["lend"] = "lend"

    @property
    def moves(self) -> JobId:
        """The job that starts or stops by it."""
        return self.borrower

    @property
    def disturbs(self) -> JobId:
        """Whose peace it costs: that job is left alone for a while when it is over or refused."""
        return self.owner


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBack:
    """Save and stop the borrower of one loan, so that the GPUs are the owner's alone again."""

    loan: DecisionId  # the decision that lent
    gpus: tuple[GpuId, ...]
    owner: JobId
    borrower: JobId
    type: Literal["call-back"] = "call-back"

    @property
    def moves(self) -> JobId:
        """The job that starts or stops by it."""
        return self.borrower

    @property
    def disturbs(self) -> JobId:
        """Whose peace it costs."""
        return self.owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start a waiting job on these GPUs, or let it go on there."""

    job: JobId
    gpus: tuple[GpuId, ...]
    after: tuple[JobId, ...] = ()  # those that hold some of the GPUs and make room first
    type: Literal["start"] = "start"

    @property
    def moves(self) -> JobId:
        """The job that starts or stops by it."""
        return self.job

    @property
    def disturbs(self) -> JobId:
        """Whose peace it costs."""
        return self.job


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempt:
    """Save a running job, free these GPUs and put it back into the queue."""

    job: JobId
    gpus: tuple[GpuId, ...]
    type: Literal["preempt"] = "preempt"

    @property
    def moves(self) -> JobId:
        """The job that starts or stops by it."""
        return self.job

    @property
    def disturbs(self) -> JobId:
        """Whose peace it costs."""
        return self.job


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Say to whoever owns a job, or runs the site, what would help. Nothing changes by it."""

    to: str  # a user, a tenant, or `operators`
    about: str  # the entity
    text: str
    job: JobId | None = None
    gpus: tuple[GpuId, ...] = ()  # none: it touches nothing
    type: Literal["tell"] = "tell"

    @property
    def moves(self) -> JobId | None:
        """No job starts or stops by it."""
        return None

    @property
    def disturbs(self) -> JobId | None:
        """Who is spoken to: not again for a while when somebody said no."""
        return self.job


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Let nothing new start on a node; what runs there runs to its end."""

    node: NodeId
    gpus: tuple[GpuId, ...]  # all that the node has: they count against the budgets
    type: Literal["drain"] = "drain"

    @property
    def moves(self) -> JobId | None:
        """No job is stopped by it."""
        return None

    @property
    def disturbs(self) -> JobId | None:
        """It costs nobody's peace."""
        return None


Action = Lend | CallBack | Start | Preempt | Tell | Drain


class Autonomy(Enum):
    """How much steward may do by itself. Granted, not assumed: `ADVISE` is the default."""

    OBSERVE = "observe"
    ADVISE = "advise"
    APPROVE = "approve"
    AUTO = "auto"

    @property
    def rank(self) -> int:
        return list(Autonomy).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a decision should bring by its first check, in GPU-seconds put to work."""

    low: float
    mid: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One thing to do and why. `undo` is None where the action is itself a way back."""

    id: DecisionId
    t_s: float
    policy: str
    action: Action
    because: str
    findings: tuple[FindingId, ...]
    forecasts: tuple[Forecast, ...]
    expects: Expectation
    check_after_s: float
    undo: Action | None
    tenant: TenantId  # whose GPUs it touches: budgets and autonomy are granted by tenant
    subject: str = ""  # the entity that its finding is about
    treatment: Treatment | None = None  # of the rule behind it: precondition and promised effect
    trusted: bool = True  # False: the rule behind it was wrong too often, so it is advice only

    @property
    def returns(self) -> bool:
        """Whether this gives back what was taken: that is always allowed."""
        return isinstance(self.action, CallBack)


class Ruling(Enum):
    """What the guard says to a decision."""

    GO = "go"
    ASK = "ask"
    ADVISE = "advise"
    HOLD = "hold"
    EXPIRE = "expire"  # nobody approved in time, or the reason is gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The guard's ruling with its reason."""

    decision: DecisionId
    t_s: float
    ruling: Ruling
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a person said about a decision: `approve`, `reject` or `undo`."""

    decision: DecisionId
    t_s: float
    choice: Literal["approve", "reject", "undo"]
    user: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What an actuator really did. `gpus` are those it changed: fewer than asked is `partly`."""

    decision: DecisionId
    t_s: float
    result: Literal["done", "partly", "failed"]
    gpus: tuple[GpuId, ...]
    text: str


class DecisionState(Enum):
    """Where a decision is, told from its journal entries alone."""

    ADVISED = "advised"
    WAITING = "waiting"
    APPROVED = "approved"
    REJECTED = "rejected"
    HELD = "held"
    ACTIVE = "active"
    DONE = "done"
    FAILED = "failed"
    UNDONE = "undone"
    EXPIRED = "expired"
