"""Measures what starts, drains and settings of model servers were worth."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import sqrt

from steward.model.actions import DrainInstance, StartInstance
from steward.model.decision import Decision, Receipt
from steward.model.identity import DecisionId
from steward.model.outcome import Interval, Outcome, Story
from steward.model.serving.moment import ServingMoment
from steward.model.yardstick import DEADLINES, GPU_TIME

__all__ = ["DeadlineOutcomes", "GpuTimeOutcomes", "ServingVerifier"]

REMEMBERED_S = 7200.0  # longer than any check takes
_Z = 1.96
_NOTHING = Interval(low=0.0, mid=0.0, high=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    t_s: float
    met: int
    judged: int


@dataclass(slots=True, kw_only=True)
class _Case:
    decision: Decision
    begun_s: float
    done_s: float | None = None


class DeadlineOutcomes:
    """Requests that kept their deadline, against the share that did in as long before.

    Load differs between the two times, and so may the share without any decision: the interval
    covers chance alone, and the text says how many requests were compared.
    """

    def __init__(self) -> None:
        self._cases: dict[DecisionId, _Case] = {}
        self._counts: deque[_Counts] = deque()

    def begin(self, decision: Decision, receipt: Receipt, _: ServingMoment | None) -> None:
        """Start to follow a decision: what is before began it, what is after it was done counts."""
        if decision.action.yardstick != DEADLINES:
            return
        case = self._cases.setdefault(decision.id, _Case(decision=decision, begun_s=receipt.t_s))
        if receipt.result != "begun":
            case.done_s = receipt.t_s

    def resume(self, _: Story) -> None:
        """Follow nothing of an earlier run: what was before is not known any more."""

    def follow(self, view: ServingMoment) -> list[tuple[Decision, Outcome]]:
        """Take in one moment; return the outcomes that are due in it."""
        self._count(view)
        found = []
        for case in list(self._cases.values()):
            check_s = case.decision.check_after_s
            if case.done_s is not None and view.t_s >= case.done_s + check_s:
                del self._cases[case.decision.id]
                found.append((case.decision, self._outcome(case, case.done_s, view.t_s)))
        return found

    def forget(self, decision: DecisionId) -> None:
        """Stop following a decision that failed after all."""
        self._cases.pop(decision, None)

    def so_far(self, _: ServingMoment) -> tuple[Outcome, ...]:
        """Return nothing: these are known only at their check."""
        return ()

    def settle(self, _: ServingMoment) -> list[Outcome]:
        """Return nothing: half a comparison is none."""
        return []

    def _count(self, view: ServingMoment) -> None:
        if view.unknown:
            return
        now = _Counts(t_s=view.t_s, met=view.snapshot.met, judged=view.snapshot.judged)
        if self._counts and now.judged < self._counts[-1].judged:
            self._counts.clear()  # the gateway began anew
        self._counts.append(now)
        while self._counts[0].t_s < view.t_s - REMEMBERED_S:
            self._counts.popleft()

    def _outcome(self, case: _Case, done_s: float, t_s: float) -> Outcome:
        length_s = t_s - done_s
        before = self._between(case.begun_s - length_s, case.begun_s)
        after = self._between(done_s, t_s)
        gained, text = _compared(before, after)
        return Outcome(
            decision=case.decision.id,
            t_s=t_s,
            from_s=done_s,
            to_s=t_s,
            gained=gained,
            expected=case.decision.expects.mid,
            due_s=t_s,
            final=True,
            text=text,
            yardstick=DEADLINES,
        )

    def _between(self, from_s: float, to_s: float) -> tuple[int, int]:
        """Return how many requests kept their deadline in a time, and how many were judged."""
        inside = [each for each in self._counts if from_s <= each.t_s <= to_s]
        if not inside:
            return 0, 0
        return inside[-1].met - inside[0].met, inside[-1].judged - inside[0].judged


def _compared(before: tuple[int, int], after: tuple[int, int]) -> tuple[Interval, str]:
    """Return how many more requests kept their deadline than by the share of before."""
    if not before[1] or not after[1]:
        text = f"nothing to compare: {before[1]} requests ended before, {after[1]} since"
        return _NOTHING, text
    was, now = before[0] / before[1], after[0] / after[1]
    mid = (now - was) * after[1]
    half = _Z * after[1] * sqrt(was * (1 - was) / before[1] + now * (1 - now) / after[1])
    text = (
        f"{now:.1%} of {after[1]} requests kept their deadline, {was:.1%} of {before[1]} in as "
        "long before; the load may have been another"
    )
    return Interval(low=mid - half, mid=mid, high=mid + half), text


class GpuTimeOutcomes:
    """For how long a drained instance held no GPUs, until the next of its type was started.

    Without the drain it would have held them throughout: that is what is compared with. What the
    GPUs did instead is measured where they were put to work.
    """

    def __init__(self) -> None:
        self._cases: dict[DecisionId, _Case] = {}
        self._started_s: dict[str, float] = {}  # by type: when an instance was last started

    def begin(self, decision: Decision, receipt: Receipt, _: ServingMoment | None) -> None:
        """Start to follow a drain, or note that a start ends what drains of its type bring."""
        action = decision.action
        if isinstance(action, StartInstance):
            self._started_s[action.instance_type] = receipt.t_s
        if isinstance(action, DrainInstance) and receipt.result != "begun":
            self._cases[decision.id] = _Case(
                decision=decision, begun_s=receipt.t_s, done_s=receipt.t_s
            )

    def resume(self, story: Story) -> None:
        """Go on with a drain of an earlier run."""
        done = [each for each in story.receipts if each.result in ("done", "partly")]
        if done and not story.outcomes:
            self.begin(story.decision, done[-1], None)

    def follow(self, view: ServingMoment) -> list[tuple[Decision, Outcome]]:
        """Take in one moment; return the outcomes that are due in it."""
        found = []
        for case in list(self._cases.values()):
            if view.t_s >= case.begun_s + case.decision.check_after_s:
                del self._cases[case.decision.id]
                found.append((case.decision, self._outcome(case, view.t_s)))
        return found

    def forget(self, decision: DecisionId) -> None:
        """Stop following a decision that failed after all."""
        self._cases.pop(decision, None)

    def so_far(self, _: ServingMoment) -> tuple[Outcome, ...]:
        """Return nothing: these are known only at their check."""
        return ()

    def settle(self, _: ServingMoment) -> list[Outcome]:
        """Return nothing: the next run goes on with them."""
        return []

    def _outcome(self, case: _Case, t_s: float) -> Outcome:
        action = case.decision.action
        assert isinstance(action, DrainInstance)  # noqa: S101
        started_s = self._started_s.get(action.instance_type, float("-inf"))
        again = started_s >= case.begun_s
        until_s = min(t_s, started_s) if again else t_s
        gained = (until_s - case.begun_s) * action.gpu_count
        end = f"one was started after {until_s - case.begun_s:.0f} s" if again else "none since"
        return Outcome(
            decision=case.decision.id,
            t_s=t_s,
            from_s=case.begun_s,
            to_s=t_s,
            gained=Interval(low=gained, mid=gained, high=gained),
            expected=case.decision.expects.mid,
            due_s=t_s,
            final=True,
            text=f"{gained / 3600:.2f} GPU-hours were not held: {end}",
            yardstick=GPU_TIME,
        )


class ServingVerifier:
    """Hands each decision to those who can measure it, and collects what they found."""

    def __init__(self) -> None:
        self._parts = (DeadlineOutcomes(), GpuTimeOutcomes())

    def begin(self, decision: Decision, receipt: Receipt, view: ServingMoment) -> None:
        """Start to follow a decision that was carried out or begun."""
        for each in self._parts:
            each.begin(decision, receipt, view)

    def resume(self, story: Story) -> None:
        """Go on with a decision of an earlier run."""
        for each in self._parts:
            each.resume(story)

    def follow(self, view: ServingMoment) -> list[tuple[Decision, Outcome]]:
        """Take in one moment; return the outcomes that are due in it."""
        return [found for each in self._parts for found in each.follow(view)]

    def forget(self, decision: DecisionId) -> None:
        """Stop following a decision that failed after all."""
        for each in self._parts:
            each.forget(decision)

    def so_far(self, view: ServingMoment) -> tuple[Outcome, ...]:
        """Return what open cases have brought so far."""
        return tuple(outcome for each in self._parts for outcome in each.so_far(view))

    def settle(self, view: ServingMoment) -> list[Outcome]:
        """Close the accounts up to now: steward is about to stop."""
        return [outcome for each in self._parts for outcome in each.settle(view)]
