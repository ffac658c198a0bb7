"""Response models, and so the OpenAPI document. Unknown numbers are null, never NaN.

Names are those of the model; a shape here is filled straight from the value of that name.
"""

from __future__ import annotations

from dataclasses import fields
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from steward.model.actions import ACTIONS, Action
from steward.model.decision import DecisionState, Ruling
from steward.model.finding import Severity
from steward.model.yardstick import ComparedWith

__all__ = [
    "ChoiceReply",
    "DecisionReply",
    "ErrorRecord",
    "ErrorReply",
    "EventReply",
    "FindingReply",
    "IntervalReply",
    "Number",
    "OpinionReply",
    "OutcomeReply",
    "PatternReply",
    "RecordReply",
    "Reply",
    "StandingApprovalReply",
    "StoryReply",
    "Text",
    "TreatmentReply",
    "failures",
]


def _known(value: object) -> object:
    return None if isinstance(value, float) and not isfinite(value) else value


Number = Annotated[float | None, BeforeValidator(_known)]
Text = Annotated[str, Field(description="for people")]


class Reply(BaseModel):
    """Filled from a value by its attributes; frozen."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class ErrorRecord(Reply):
    """What is wrong, where, and what to do next."""

    problem: str
    where: str
    hint: str


class ErrorReply(Reply):
    """Every answer that is not a success has this shape."""

    error: ErrorRecord


class IntervalReply(Reply):
    """A figure and the range it lies in with 95 % confidence."""

    low: Number
    mid: Number
    high: Number


class EventReply(Reply):
    """Something that happened."""

    t_s: float
    kind: str
    subject: str
    text: Text
    source: str


class EvidenceReply(Reply):
    """Where the samples are that a finding rests on."""

    entity: str
    metric: str
    from_s: Number
    to_s: Number
    says: Text
    threshold: Number


class QuoteReply(Reply):
    """A line that a finding rests on. `line` is 0 if unknown."""

    t_s: float
    text: Text
    stream: str
    line: int
    entity: str


class EffectReply(Reply):
    """What a rule promises: the mean of an expression changes by at least this much."""

    expr: str
    direction: Literal["up", "down"]
    at_least: Number


class TreatmentReply(Reply):
    """What a rule would do about what it finds."""

    action: str
    advice: Text
    precondition: str
    effect: EffectReply | None
    check_after_s: Number
    undo: str


class FindingReply(Reply):
    """Something worth knowing."""

    id: str
    t_s: float
    rule: str
    subject: str
    title: Text
    severity: Severity
    since_s: Number
    evidence: list[EvidenceReply]
    job: str | None
    tenant: str | None
    gpus: list[str]
    quotes: list[QuoteReply]
    hits: int
    weight: Number
    treatment: TreatmentReply | None


class RecurrenceReply(Reply):
    """How often the rule of a finding matched again."""

    finding: str
    rule: str
    from_s: Number
    t_s: float
    hits: int


class OpinionReply(Reply):
    """A person's opinion on a finding."""

    finding: str
    rule: str
    t_s: float
    opinion: Literal["confirm", "dismiss"]
    user: str
    note: str


class PatternReply(Reply):
    """Something that keeps happening: `hits` of `cases`."""

    id: str
    t_s: float
    miner: str
    statement: Text
    hits: int
    cases: int
    low_share: Number
    high_share: Number


def _reply_of(action: type[Action]) -> type[Reply]:
    """Return the shape of an action's answer: the fields of its value, and its sentence."""
    hints = get_type_hints(action)
    shape: dict[str, Any] = {each.name: (hints[each.name], ...) for each in fields(action)}
    return create_model(
        f"{action.__name__}Reply",
        __base__=Reply,
        __doc__=action.__doc__,
        sentence=(Text, ...),
        **shape,
    )


if TYPE_CHECKING:
    ActionReply = Any  # made from the table of actions, which no type checker can follow
else:
    ActionReply = Annotated[
        Union[tuple(map(_reply_of, ACTIONS.values()))],  # noqa: UP007 - it has no operators
        Field(discriminator="type"),
    ]


class ForecastReply(Reply):
    """What `basis` believed when the decision was made."""

    subject: str
    quantity: str
    low: Number
    mid: Number
    high: Number
    basis: str


class DecisionReply(Reply):
    """One thing to do and why. `expects` is in the unit of its action's yardstick."""

    id: str
    t_s: float
    policy: str
    action: ActionReply
    because: Text
    findings: list[str]
    forecasts: list[ForecastReply]
    expects: IntervalReply
    check_after_s: Number
    undo: ActionReply | None
    tenant: str
    subject: str
    treatment: TreatmentReply | None
    trusted: bool
    after: list[str]
    undoes: str | None


class VerdictReply(Reply):
    """A ruling of the guard."""

    decision: str
    t_s: float
    ruling: Ruling
    why: Text


class ChoiceReply(Reply):
    """A person's choice."""

    decision: str
    t_s: float
    choice: Literal["approve", "reject", "undo"]
    user: str
    note: str


class StandingApprovalReply(Reply):
    """An approval in advance, for one tenant and one type of action; or one that is revoked."""

    id: str
    t_s: float
    tenant: str
    action: str
    until_s: Number
    gpus: int
    user: str
    note: str
    revokes: str


class ReceiptReply(Reply):
    """The receipt: what was done."""

    decision: str
    t_s: float
    result: Literal["begun", "done", "partly", "failed"]
    gpus: list[str]
    text: Text
    job: str | None


class ChangeReply(Reply):
    """What an expression was worth before and after; null if unknown."""

    expr: str
    before: IntervalReply | None
    after: IntervalReply | None
    by: IntervalReply | None
    met: bool | None
    worse: bool


class OutcomeReply(Reply):
    """What it was worth between `from_s` and `to_s`, in the unit of its yardstick."""

    decision: str
    t_s: float
    from_s: Number
    to_s: Number
    gained: IntervalReply
    lent: Number
    expected: Number
    counterfactual: Number
    idle_watts: Number
    final: bool
    text: Text
    yardstick: str
    comparison: ComparedWith
    kept_share: Number | None
    effect: ChangeReply | None


class StoryReply(Reply):
    """A decision with all that came of it, oldest first. `gained` is in GPU-seconds."""

    state: DecisionState
    decision: DecisionReply
    verdicts: list[VerdictReply]
    choices: list[ChoiceReply]
    receipts: list[ReceiptReply]
    outcomes: list[OutcomeReply]
    undo_state: DecisionState | None = Field(
        description="where the decision is that takes this one back; null if there is none"
    )
    gained: Number


RecordReply = (
    OutcomeReply
    | DecisionReply
    | FindingReply
    | RecurrenceReply
    | OpinionReply
    | PatternReply
    | VerdictReply
    | ChoiceReply
    | StandingApprovalReply
    | ReceiptReply
    | EventReply
)

_MEANINGS = {
    400: "Malformed, or for another host",
    401: "No valid token",
    403: "Not allowed, or from another site's page",
    404: "There is no such thing",
    405: "Not with this method",
    408: "The request did not arrive in time",
    409: "Makes no sense in the present state",
    413: "The request is too large",
    415: "Not a kind of request that this address takes",
    422: "A parameter is not what it should be",
    429: "Too many requests",
    503: "Storage or the loop cannot be relied on now",
}


def failures(*more: int) -> dict[int | str, dict[str, Any]]:
    """Describe how a request can fail: in the ways that all can, and in `more`."""
    statuses = sorted({400, 401, 403, 408, 413, 422, 429, 503, *more})
    return {each: {"model": ErrorReply, "description": _MEANINGS[each]} for each in statuses}
