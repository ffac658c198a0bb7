"""Checks what rules promised: the mean of an expression before a decision, and after it."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, isfinite

from steward.act.guard import entities_of
from steward.model.decision import Decision, Receipt
from steward.model.identity import DecisionId
from steward.model.outcome import Change, Interval, Outcome, Story
from steward.model.treatment import Effect
from steward.model.view import ClusterView
from steward.model.yardstick import EFFECT
from steward.ports import Meter

__all__ = ["Effects"]

NOTHING = Interval(low=0.0, mid=0.0, high=0.0)
MOST_OPEN = 10_000  # decisions that wait for their check; the oldest are given up beyond that


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    decision: Decision
    effect: Effect
    done_s: float

    @property
    def check_s(self) -> float:
        return self.done_s + self.decision.check_after_s


class Effects:
    """Waits until a decision's check is due, and then measures."""

    def __init__(self, meter: Meter | None) -> None:
        self._meter = meter
        self._cases: dict[DecisionId, _Case] = {}

    def begin(self, decision: Decision, receipt: Receipt, _: ClusterView | None) -> None:
        """Follow a decision that was just carried out, if its rule promised anything.

        What has a yardstick in GPU time of its own, such as a loan, is judged by that alone.
        """
        effect = decision.treatment.effect if decision.treatment is not None else None
        if effect is None or receipt.result == "begun" or decision.yardstick != EFFECT:
            return
        self._cases[decision.id] = _Case(decision=decision, effect=effect, done_s=receipt.t_s)
        while len(self._cases) > MOST_OPEN:
            self._cases.pop(next(iter(self._cases)))

    def resume(self, story: Story) -> None:
        """Go on waiting for a check that an earlier run did not get round to."""
        done = [each for each in story.receipts if each.result in ("done", "partly")]
        if done and not any(outcome.effect is not None for outcome in story.outcomes):
            self.begin(story.decision, done[-1], None)

    def follow(self, view: ClusterView) -> list[tuple[Decision, Outcome]]:
        """Return the checks that are due, each with its decision."""
        due = [case for case in self._cases.values() if view.t_s >= case.check_s]
        for case in due:
            del self._cases[case.decision.id]
        return [(case.decision, self._outcome(case, view.t_s)) for case in due]

    def _outcome(self, case: _Case, t_s: float) -> Outcome:
        decision = case.decision
        change = self._change(case)
        return Outcome(
            decision=decision.id,
            t_s=t_s,
            from_s=case.done_s,
            to_s=case.check_s,
            gained=_gained(change, case.effect),
            # whether advice is followed is up to people: it promises nothing
            expected=0.0 if decision.action.yardstick == EFFECT else case.effect.at_least,
            due_s=t_s,
            final=not decision.action.lasts,
            text=_said(change, case.effect),
            yardstick=EFFECT,
            effect=change,
        )

    def forget(self, decision: DecisionId) -> None:
        """Stop following a decision that failed after all."""
        self._cases.pop(decision, None)

    def so_far(self, _: ClusterView) -> tuple[Outcome, ...]:
        """Return nothing: an effect is known only at its check."""
        return ()

    def settle(self, _: ClusterView) -> list[Outcome]:
        """Return nothing: the next run goes on with them."""
        return []

    def _change(self, case: _Case) -> Change:
        before = self._mean(case, case.done_s - case.decision.check_after_s, case.done_s)
        after = self._mean(case, case.done_s, case.check_s)
        by = None if before is None or after is None else _difference(before, after)
        if by is None:
            return Change(expr=case.effect.expr, before=before, after=after, by=None, met=None)
        sign = 1.0 if case.effect.direction == "up" else -1.0
        return Change(
            expr=case.effect.expr,
            before=before,
            after=after,
            by=by,
            met=sign * by.mid >= case.effect.at_least,
            worse=max(sign * by.low, sign * by.high) < 0,
        )

    def _mean(self, case: _Case, from_s: float, to_s: float) -> Interval | None:
        if self._meter is None:
            return None
        about = entities_of(case.decision)
        found = self._meter.mean(case.effect.expr, about, from_s=from_s, to_s=to_s)
        return found if found is not None and isfinite(found.mid) else None


def _gained(change: Change, effect: Effect) -> Interval:
    """Return the change in the direction that was promised."""
    if change.by is None:
        return NOTHING
    if effect.direction == "up":
        return change.by
    return Interval(low=-change.by.high, mid=-change.by.mid, high=-change.by.low)


def _difference(before: Interval, after: Interval) -> Interval:
    """Return what was added; the errors of both are independent."""
    mid = after.mid - before.mid
    below = hypot(after.mid - after.low, before.high - before.mid)
    above = hypot(after.high - after.mid, before.mid - before.low)
    return Interval(low=mid - below, mid=mid, high=mid + above)


def _said(change: Change, effect: Effect) -> str:
    promised = f"{effect.direction} by at least {effect.at_least:g}"
    if change.by is None or change.before is None or change.after is None:
        return f"unknown whether {effect.expr} went {promised}: samples are missing"
    word = "kept" if change.met else "broken, it got worse" if change.worse else "broken"
    return (
        f"{effect.expr} was {change.before.mid:.4g} and is {change.after.mid:.4g}; "
        f"{promised} was promised: {word}"
    )
