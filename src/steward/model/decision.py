"""What should be done and why, what was said about it, and what was done."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from steward.model.actions import Action
from steward.model.forecast import Forecast
from steward.model.identity import DecisionId, FindingId, GpuId, JobId, TenantId, stable_id
from steward.model.site import Autonomy
from steward.model.treatment import Treatment
from steward.model.yardstick import EFFECT, PUT_TO_WORK, RUN

__all__ = [
    "EFFECT_CHECK",
    "NOTHING_EXPECTED",
    "Autonomy",
    "Choice",
    "Decision",
    "DecisionState",
    "Expectation",
    "Receipt",
    "Ruling",
    "StandingApproval",
    "Verdict",
]


EFFECT_CHECK = "steward's check"  # who undoes what a check found to be worse: no account's name


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a decision should bring by its first check, in the unit of its action's yardstick."""

    low: float
    mid: float
    high: float


NOTHING_EXPECTED = Expectation(low=0.0, mid=0.0, high=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One thing to do and why.

    It is carried out only when all decisions in `after` are done, and dropped when one of them
    fails. One that takes another back (`undoes`) has reasons of its own and is judged by itself.
    """

    id: DecisionId
    t_s: float
    policy: str
    action: Action
    because: str
    findings: tuple[FindingId, ...] = ()
    forecasts: tuple[Forecast, ...] = ()
    expects: Expectation = NOTHING_EXPECTED
    check_after_s: float
    tenant: TenantId  # whose GPUs it touches: budgets and autonomy are granted by tenant
    subject: str = ""  # the entity that its finding is about
    treatment: Treatment | None = None  # of the rule behind it: precondition and promised effect
    trusted: bool = True  # False: the rule behind it was wrong too often, so it is advice only
    after: tuple[DecisionId, ...] = ()
    undoes: DecisionId | None = None

    @property
    def returns(self) -> bool:
        """Whether this gives back what was taken: that is always allowed."""
        return self.action.returns

    @property
    def yardstick(self) -> str:
        """What it is judged by: its action's yardstick, or what the rule behind it promised."""
        own = self.action.yardstick
        promised = self.treatment is not None and self.treatment.effect is not None
        return EFFECT if promised and own not in (PUT_TO_WORK, RUN) else own

    @property
    def undo(self) -> Action | None:
        """The action that takes it back, if there is one."""
        return None if self.undoes is not None else self.action.undo(self.id)

    def undo_id(self, asked_s: float) -> DecisionId:
        """Return the id of the decision that takes it back, by when that was asked for.

        Asked again after one has failed, it is another.
        """
        return DecisionId(stable_id("d", "undo", self.id, asked_s))


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
    """What a person chose about a decision: `approve`, `reject` or `undo`."""

    decision: DecisionId
    t_s: float
    choice: Literal["approve", "reject", "undo"]
    user: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What an actuator really did. `gpus` are those it changed: fewer than asked is `partly`.

    `begun` means that it takes time: the actuator is asked for progress until it is over.
    `job` is what it was done to, where that has another id than the job of the action: one task of
    an array.
    """

    decision: DecisionId
    t_s: float
    result: Literal["begun", "done", "partly", "failed"]
    gpus: tuple[GpuId, ...]
    text: str
    job: JobId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingApproval:
    """A person's approval in advance of one tenant's actions of one type, for a while.

    One with `revokes` takes an earlier one back.
    """

    id: str
    t_s: float
    tenant: TenantId
    action: str  # type of the action
    until_s: float
    gpus: int  # how many GPUs it covers in all
    user: str
    note: str = ""
    revokes: str = ""


class DecisionState(Enum):
    """Where a decision is, derived from its journal entries alone."""

    ADVISED = "advised"
    WAITING = "waiting"
    APPROVED = "approved"
    UNDER_WAY = "under-way"
    REJECTED = "rejected"
    HELD = "held"
    ACTIVE = "active"
    DONE = "done"
    FAILED = "failed"
    UNDONE = "undone"
    EXPIRED = "expired"
