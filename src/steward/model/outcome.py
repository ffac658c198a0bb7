"""What a decision was really worth, and what all of them together saved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt

from steward.model.decision import Choice, Decision, DecisionState, Receipt, Ruling, Verdict
from steward.model.identity import DecisionId
from steward.model.site import Assumptions
from steward.model.yardstick import PUT_TO_WORK, YARDSTICKS, ComparedWith

__all__ = [
    "HOUR_S",
    "JOULES_PER_KWH",
    "Assumptions",
    "Change",
    "Interval",
    "Outcome",
    "Savings",
    "Story",
    "savings_of",
]

JOULES_PER_KWH = 3.6e6
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A figure and the range it lies in with 95 % confidence."""

    low: float
    mid: float
    high: float

    def times(self, factor: float) -> Interval:
        """Return the interval in another unit (the factor is not negative)."""
        return Interval(low=self.low * factor, mid=self.mid * factor, high=self.high * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What an expression was worth before and after a decision; None is unknown.

    `met` says whether it changed by as much as the rule promised, `worse` that it surely changed
    the other way.
    """

    expr: str
    before: Interval | None
    after: Interval | None
    by: Interval | None
    met: bool | None
    worse: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a decision between `from_s` and `to_s`, in the unit of its yardstick.

    A loan that goes on after its check has several outcomes; they do not overlap. `gained` can be
    negative.
    """

    decision: DecisionId
    t_s: float
    from_s: float
    to_s: float
    gained: Interval
    expected: float  # promised by the first check; 0 in later parts, as nothing was
    final: bool
    text: str
    yardstick: str = PUT_TO_WORK
    lent: float = 0.0  # GPU-seconds that were lent in this part
    counterfactual: float = 0.0  # GPU-seconds that would have been worked in any case
    idle_watts: float = 0.0  # of the GPUs while nobody used them, measured before the decision
    counted_on: float = 0.0  # GPU-seconds of idleness that the decision counted on by then
    due_s: float = 0.0  # when the promise is judged: a loan that ended early is not judged early
    effect: Change | None = None  # what the expression of a rule's promise was worth

    @property
    def comparison(self) -> ComparedWith:
        """What the figure was compared with."""
        return YARDSTICKS[self.yardstick].comparison

    @property
    def kept_share(self) -> float | None:
        """How much of what was promised was kept, from 0 to 1; None where that is unknown.

        Rules and pages judge one decision by it. The breaker compares sums instead, in which a
        loss is below zero.
        """
        if self.effect is not None:
            return None if self.effect.met is None else float(self.effect.met)
        if self.expected <= 0:
            return None
        return min(1.0, max(0.0, self.gained.mid / self.expected))


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A decision with all that came of it, oldest first, as the journal tells it."""

    decision: Decision
    verdicts: tuple[Verdict, ...] = ()
    choices: tuple[Choice, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    undo_state: DecisionState | None = None  # of the decision that takes it back, if there is one

    @property
    def state(self) -> DecisionState:
        """Where the decision is. What was done counts for more than what people chose.

        It is undone once the decision that takes it back was carried out, not when that was asked.
        """
        if not self.receipts and not self.outcomes:
            return self._before_acting()
        undone = self.undo_state in (DecisionState.DONE, DecisionState.ACTIVE)
        over = DecisionState.UNDONE if undone else DecisionState.DONE
        if any(outcome.final for outcome in self.outcomes):
            return over
        result = self.receipts[-1].result if self.receipts else "done"
        if result == "begun":
            return DecisionState.UNDER_WAY
        if result == "failed":
            return DecisionState.FAILED
        return DecisionState.ACTIVE if self.decision.action.lasts else over

    @property
    def undos_asked(self) -> tuple[Choice, ...]:
        """The choices by which a person, or a check that found it worse, asked to take it back."""
        return tuple(each for each in self.choices if each.choice == "undo")

    @property
    def can_be_undone(self) -> bool:
        """Whether there is a way back that nobody has asked for, or that came to nothing."""
        begun = self.undo_state is not None and not self.undo_may_begin
        pending = bool(self.undos_asked) and self.undo_state is None
        return self.decision.undo is not None and not begun and not pending

    @property
    def undo_may_begin(self) -> bool:
        """Whether nothing takes it back now, or has done so."""
        ended = (DecisionState.FAILED, DecisionState.EXPIRED, DecisionState.REJECTED)
        return self.undo_state is None or self.undo_state in ended

    def _before_acting(self) -> DecisionState:
        if self.verdicts and self.verdicts[-1].ruling is Ruling.EXPIRE:
            return DecisionState.EXPIRED
        if self.choices:
            said = self.choices[0].choice  # the first counts, if two people spoke at once
            return DecisionState.APPROVED if said == "approve" else DecisionState.REJECTED
        if not self.verdicts:
            return DecisionState.HELD
        return {
            Ruling.GO: DecisionState.APPROVED,
            Ruling.ASK: DecisionState.WAITING,
            Ruling.ADVISE: DecisionState.ADVISED,
            Ruling.HOLD: DecisionState.HELD,
            Ruling.EXPIRE: DecisionState.EXPIRED,
        }[self.verdicts[-1].ruling]

    @property
    def gained(self) -> float:
        """Return the GPU-seconds saved, as measured so far."""
        return sum(
            outcome.gained.mid for outcome in self.outcomes if YARDSTICKS[outcome.yardstick].saves
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """The sum of all outcomes that saved GPU time so far."""

    gpu_hours: Interval
    cost: Interval
    energy_kwh: Interval
    co2_kg: Interval
    outcomes: int
    decisions: int
    assumptions: Assumptions


def savings_of(outcomes: Iterable[Outcome], assumptions: Assumptions) -> Savings:
    """Add outcomes up. Errors of single outcomes are independent, so their squares add.

    Energy: an idle GPU and its part of the host burn power for nothing. Work that runs there
    instead of on a GPU of its own saves that floor, not the power of the work itself.
    """
    gpu_s = energy_j = 0.0
    gpu_var, energy_var = [0.0, 0.0], [0.0, 0.0]  # below and above: ranges may be lopsided
    count, decisions = 0, set()
    for outcome in outcomes:
        if not YARDSTICKS[outcome.yardstick].saves:
            continue
        gained = outcome.gained
        watts = (
            outcome.idle_watts + assumptions.host_watts_per_gpu
        ) * assumptions.power_usage_effectiveness
        gpu_s += gained.mid
        energy_j += gained.mid * watts
        for side, half in enumerate((gained.mid - gained.low, gained.high - gained.mid)):
            gpu_var[side] += half * half
            energy_var[side] += (half * watts) ** 2
        count += 1
        decisions.add(outcome.decision)
    gpu_hours = _interval(gpu_s, gpu_var).times(1 / HOUR_S)
    energy_kwh = _interval(energy_j, energy_var).times(1 / JOULES_PER_KWH)
    return Savings(
        gpu_hours=gpu_hours,
        cost=gpu_hours.times(assumptions.price_per_gpu_hour),
        energy_kwh=energy_kwh,
        co2_kg=energy_kwh.times(assumptions.co2_kg_per_kwh),
        outcomes=count,
        decisions=len(decisions),
        assumptions=assumptions,
    )


def _interval(mid: float, variances: list[float]) -> Interval:
    below, above = variances
    return Interval(low=mid - sqrt(below), mid=mid, high=mid + sqrt(above))
