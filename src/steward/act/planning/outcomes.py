"""Measures what a move was worth: money and lateness until the job's end, against the forecast."""

from __future__ import annotations

from dataclasses import dataclass

from steward.model.actions import MoveJob
from steward.model.decision import Decision, Receipt
from steward.model.identity import DecisionId
from steward.model.outcome import Interval, Outcome, Story
from steward.model.planning.followed import FollowedJob, JobEnd
from steward.model.planning.view import PlanningView
from steward.model.yardstick import PLANS

__all__ = ["MoveOutcomes"]

SURE = 0.05  # the chance below which being late counts as excluded, or its opposite


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    decision: Decision
    done_s: float


class MoveOutcomes:
    """One outcome for each move, when its job ends. What was forecast is in the decision itself."""

    def __init__(self) -> None:
        self._cases: dict[DecisionId, _Case] = {}

    def begin(self, decision: Decision, receipt: Receipt, _: PlanningView | None) -> None:
        """Start to follow a move that is done."""
        if isinstance(decision.action, MoveJob) and receipt.result == "done":
            self._cases[decision.id] = _Case(decision=decision, done_s=receipt.t_s)

    def resume(self, story: Story) -> None:
        """Go on with a move of an earlier run."""
        done = [each for each in story.receipts if each.result == "done"]
        if done and not story.outcomes:
            self.begin(story.decision, done[-1], None)

    def follow(self, view: PlanningView) -> list[tuple[Decision, Outcome]]:
        """Take in one moment; return the outcomes of jobs that have ended."""
        found = []
        for case in list(self._cases.values()):
            action = case.decision.action
            job = view.job(action.job) if isinstance(action, MoveJob) else None
            if job is None or job.end is None or not isinstance(action, MoveJob):
                continue
            del self._cases[case.decision.id]
            found.append((case.decision, _outcome(case, action, job, view.t_s)))
        return found

    def forget(self, decision: DecisionId) -> None:
        """Stop following a move that failed after all."""
        self._cases.pop(decision, None)

    def so_far(self, _: PlanningView) -> tuple[Outcome, ...]:
        """Return nothing: it is known at the job's end."""
        return ()

    def settle(self, _: PlanningView) -> list[Outcome]:
        """Return nothing: the next run goes on with them."""
        return []


def _outcome(case: _Case, action: MoveJob, job: FollowedJob, t_s: float) -> Outcome:
    ended_s = t_s if job.ended_s is None else job.ended_s
    deadline_s = job.request.deadline_s
    late = job.end is not JobEnd.COMPLETED or (deadline_s is not None and ended_s > deadline_s)
    paid = sum(each.spent_usd(ended_s) for each in job.runs if each.decision == case.decision.id)
    stay = action.stay
    penalty = stay.usd_if_late
    usd = stay.usd
    stayed = (usd.low, usd.mid, usd.high) if usd is not None else (paid, paid, paid)
    chances = (_sure(stay.late_chance), stay.late_chance, 1 - _sure(1 - stay.late_chance))
    after = paid + penalty * late
    low, mid, high = (
        cost + penalty * chance - after for cost, chance in zip(stayed, chances, strict=True)
    )
    money = "money unknown" if usd is None else f"{paid:.2f} USD, {usd.mid:.2f} forecast without it"
    end = "late" if late else "in time" if deadline_s is not None else "ended"
    text = f"{end}; {money}; {stay.late_chance:.0%} likely to be late without it"
    return Outcome(
        decision=case.decision.id,
        t_s=t_s,
        from_s=case.done_s,
        to_s=t_s,
        gained=Interval(low=min(low, mid), mid=mid, high=max(high, mid)),
        expected=case.decision.expects.mid,
        due_s=t_s,
        final=True,
        text=text,
        yardstick=PLANS,
    )


def _sure(chance: float) -> float:
    """Return the least that an event of this chance may count: 0, unless it is nearly sure."""
    return 1.0 if chance > 1 - SURE else 0.0
