"""Sum up the journal incrementally: each entry is read once and added to what is known.

Memory is bounded: decisions that are closed are dropped once there are newer ones; their counts
and savings stay.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import hypot
from typing import Generic, Protocol, TypeVar

from steward.model.actions import Lend
from steward.model.decision import Choice, Decision, DecisionState, Receipt, Verdict
from steward.model.finding import Finding, Recurrence
from steward.model.identity import DecisionId
from steward.model.outcome import Assumptions, Interval, Outcome, Savings, Story, savings_of
from steward.model.planning.carbon import CarbonSeries
from steward.model.savings_ledger import SavingsLedger
from steward.model.yardstick import STOP_COST, YARDSTICKS
from steward.store.finding_summary import FindingSummary
from steward.store.journal import Journal, JournalEntry, Record

__all__ = ["CurvePoint", "DownsampledCurve", "JournalSummary", "TrackedStory"]

HOUR_S = 3600.0
UNKNOWN = "unknown"  # the kind of a decision that damage of the journal has lost
_READ_AT_ONCE = 1000
_CARRIED_OUT = ("done", "partly")
_CLOSED = frozenset(
    {
        DecisionState.DONE,
        DecisionState.EXPIRED,
        DecisionState.FAILED,
        DecisionState.REJECTED,
        DecisionState.UNDONE,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedStory:
    """A decision's story so far; `seq` is the newest journal entry that belongs to it."""

    seq: int
    story: Story
    state: DecisionState  # of the story, worked out once

    @classmethod
    def of(cls, story: Story, *, seq: int) -> TrackedStory:
        """Return a story as of entry `seq`."""
        return cls(seq=seq, story=story, state=story.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """A value at one time, with its interval."""

    t_s: float
    low: float
    mid: float
    high: float


class Timed(Protocol):
    """Anything that has a time."""

    @property
    def t_s(self) -> float: ...


P = TypeVar("P", bound=Timed)


class DownsampledCurve(Generic[P]):
    """At most `size` points in order of time, evenly thinned; the newest is always there.

    When it is full, every other point is dropped, and from then on half as many are kept.
    """

    def __init__(self, size: int = 512) -> None:
        self._size = size
        self._kept: list[P] = []
        self._newest: P | None = None
        self._every = 1  # one of so many points is kept
        self._skipped = 0

    @property
    def points(self) -> tuple[P, ...]:
        newest = self._newest
        if newest is None or (self._kept and self._kept[-1] is newest):
            return tuple(self._kept)
        return (*self._kept, newest)

    def add(self, point: P) -> None:
        """Add a point and drop those that are not earlier, so that time is increasing."""
        while self._kept and point.t_s <= self._kept[-1].t_s:
            self._kept.pop()
        self._newest = point
        self._skipped += 1
        if self._skipped < self._every and self._kept:
            return
        if len(self._kept) >= self._size - 1:
            between = len(self._kept) % 2 == 1  # the last one stays, and this would be too near
            self._kept = self._kept[::2]
            self._every *= 2
            if between:
                return
        self._kept.append(point)
        self._skipped = 0


class JournalSummary:
    """Stories, findings, counts and savings of a journal. Not thread-safe: callers lock.

    `on_value` is called with each value as it is read.
    """

    def __init__(
        self,
        journal: Journal,
        assumptions: Assumptions,
        *,
        keep: int = 1000,
        keep_findings: int = 500,
        on_value: Callable[[Record], object] = lambda _value: None,
        carbon: CarbonSeries | None = None,
    ) -> None:
        self._journal = journal
        self._on_value = on_value
        self._assumptions = assumptions
        self._keep = keep
        self._stories: OrderedDict[DecisionId, TrackedStory] = OrderedDict()
        self.findings = FindingSummary(keep_findings)
        self.carried_out: Counter[str] = Counter()  # decisions by type of action
        self.lent_gpus = 0  # of all loans so far
        self.stop_cost_gpu_hours = 0.0  # what stopping jobs cost; savings do not take it off
        self._in_memory: Counter[DecisionState] = Counter()
        self._dropped: Counter[DecisionState] = Counter()
        self.seq = 0
        self.savings = savings_of((), assumptions)
        self.ledger = SavingsLedger(assumptions, carbon)
        self.curve: DownsampledCurve[CurvePoint] = DownsampledCurve()
        self._all_history = False

    def catch_up(self) -> bool:
        """Read new entries; return True if there were any."""
        before = self.seq
        while entries := self._journal.read(after=self.seq, limit=_READ_AT_ONCE):
            for entry in entries:
                self._fold(entry)
                self._on_value(entry.value)
                if isinstance(entry.value, Outcome) and entry.value.effect is None:
                    self._add(entry.value)
            self.seq = entries[-1].seq
            self._drop_closed()
        self._all_history = True
        return self.seq != before

    @property
    def states(self) -> dict[DecisionState, int]:
        """The number of decisions in each state, dropped ones included."""
        return {state: self._in_memory[state] + self._dropped[state] for state in DecisionState}

    def savings_with(self, unsettled: Sequence[Outcome]) -> Savings:
        """Return the savings including those of open loans since their last check."""
        tracked = {each.decision: self._stories.get(each.decision) for each in unsettled}
        first = sum(each is None or not each.story.outcomes for each in tracked.values())
        return _sum(self.savings, savings_of(unsettled, self._assumptions), decisions=first)

    def stories(self) -> list[TrackedStory]:
        """Return the decisions in memory, newest first."""
        return list(reversed(self._stories.values()))

    # -- reading -------------------------------------------------------------------------------

    def _fold(self, entry: JournalEntry) -> None:
        match entry.value:
            case Decision() as decision:
                if decision.id not in self._stories:
                    self._put(decision.id, TrackedStory.of(Story(decision=decision), seq=entry.seq))
            case Finding() | Recurrence() as value:
                self.findings.add(value)
            case Verdict() | Choice() | Receipt() | Outcome() as value:
                tracked = self._stories.get(value.decision)
                if tracked is not None:
                    self._count(tracked.story, value)
                    longer = TrackedStory.of(_continued(tracked.story, value), seq=entry.seq)
                    self._put(value.decision, longer)
                    self._follow_undo(longer)

    def _follow_undo(self, undo: TrackedStory) -> None:
        """Bring the story of what is taken back to the state of the decision that does so."""
        undone = self._stories.get(undo.story.decision.undoes or DecisionId(""))
        if undone is not None and undone.story.undo_state is not undo.state:
            story = replace(undone.story, undo_state=undo.state)
            self._put(story.decision.id, TrackedStory.of(story, seq=undo.seq))

    def _count(self, story: Story, value: Verdict | Choice | Receipt | Outcome) -> None:
        """Count a decision at its first receipt that was carried out."""
        if not isinstance(value, Receipt) or value.result not in _CARRIED_OUT:
            return
        if not any(each.result in _CARRIED_OUT for each in story.receipts):
            action = story.decision.action
            self.carried_out[action.type] += 1
            self.lent_gpus += len(value.gpus) if isinstance(action, Lend) else 0

    def _put(self, decision: DecisionId, tracked: TrackedStory) -> None:
        before = self._stories.get(decision)
        if before is not None:
            self._in_memory[before.state] -= 1
        self._in_memory[tracked.state] += 1
        self._stories[decision] = tracked

    def _drop_closed(self) -> None:
        spare = len(self._stories) - self._keep
        if spare <= 0:
            return
        closed = [id_ for id_, tracked in self._stories.items() if tracked.state in _CLOSED]
        for id_ in closed[:spare]:
            state = self._stories.pop(id_).state
            self._in_memory[state] -= 1
            self._dropped[state] += 1

    # -- adding up -----------------------------------------------------------------------------

    def _add(self, outcome: Outcome) -> None:
        tracked = self._stories.get(outcome.decision)
        first = tracked is None or sum(o.effect is None for o in tracked.story.outcomes) == 1
        kind = UNKNOWN if tracked is None else tracked.story.decision.action.type
        self.ledger.add(kind, outcome, first=first)
        if outcome.yardstick == STOP_COST:
            self.stop_cost_gpu_hours -= outcome.gained.mid / HOUR_S
        if not YARDSTICKS[outcome.yardstick].saves:
            return
        more = savings_of((outcome,), self._assumptions)
        self.savings = _sum(self.savings, more, decisions=int(first))
        if not self._all_history:
            self.note(outcome.t_s, self.savings)

    def note(self, t_s: float, savings: Savings) -> None:
        """Add a point to the curve; points of outcomes read at the start are added anyway."""
        hours = savings.gpu_hours
        self.curve.add(CurvePoint(t_s=t_s, low=hours.low, mid=hours.mid, high=hours.high))


def _continued(story: Story, value: Verdict | Choice | Receipt | Outcome) -> Story:
    match value:
        case Verdict():
            return replace(story, verdicts=(*story.verdicts, value))
        case Choice():
            return replace(story, choices=(*story.choices, value))
        case Receipt():
            return replace(story, receipts=(*story.receipts, value))
        case Outcome():
            return replace(story, outcomes=(*story.outcomes, value))


def _sum(one: Savings, other: Savings, *, decisions: int) -> Savings:
    return Savings(
        gpu_hours=_plus(one.gpu_hours, other.gpu_hours),
        cost=_plus(one.cost, other.cost),
        energy_kwh=_plus(one.energy_kwh, other.energy_kwh),
        co2_kg=_plus(one.co2_kg, other.co2_kg),
        outcomes=one.outcomes + other.outcomes,
        decisions=one.decisions + decisions,
        assumptions=one.assumptions,
    )


def _plus(one: Interval, other: Interval) -> Interval:
    """Add two intervals whose errors are independent: squares of half-widths add."""
    mid = one.mid + other.mid
    below = hypot(one.mid - one.low, other.mid - other.low)
    above = hypot(one.high - one.mid, other.high - other.mid)
    return Interval(low=mid - below, mid=mid, high=mid + above)
