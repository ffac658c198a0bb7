"""Measures drains and their ends: GPU time taken out of service, and brought back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steward.model.actions import Drain, Undrain
from steward.model.decision import Decision, Receipt
from steward.model.identity import DecisionId
from steward.model.outcome import Interval, Outcome, Story
from steward.model.view import ClusterView
from steward.model.yardstick import SERVICE

__all__ = ["ServiceOutcomes"]


@dataclass(slots=True, kw_only=True)
class _Case:
    decision: Decision
    action: Drain | Undrain
    from_s: float
    seen_s: float
    first: bool = True
    gpu_s: float = 0.0
    step_s: float = 0.0


class ServiceOutcomes:
    """Sums up the unused GPUs of a drained node, or the used ones of a node that is back.

    A drain has an outcome at its check and another when the node is back.
    """

    def __init__(self) -> None:
        self._cases: dict[DecisionId, _Case] = {}

    def begin(self, decision: Decision, receipt: Receipt, _: ClusterView | None) -> None:
        """Start to follow a drain, or its end, that was carried out."""
        action = decision.action
        if isinstance(action, Drain | Undrain) and decision.id not in self._cases:
            self._cases[decision.id] = _Case(
                decision=decision, action=action, from_s=receipt.t_s, seen_s=receipt.t_s
            )

    def resume(self, story: Story) -> None:
        """Go on with a decision of an earlier run. The time in between counts as not seen."""
        done = [each for each in story.receipts if each.result in ("done", "partly")]
        mine = [each for each in story.outcomes if each.yardstick == SERVICE]
        if done and not any(each.final for each in mine):
            self.begin(story.decision, done[-1], None)
            if mine and story.decision.id in self._cases:
                case = self._cases[story.decision.id]
                case.from_s = case.seen_s = mine[-1].to_s
                case.first = False

    def follow(self, view: ClusterView) -> list[tuple[Decision, Outcome]]:
        """Take in one moment; return the outcomes that are due in it."""
        found = []
        for case in list(self._cases.values()):
            self._look(case, view)
            lasts = isinstance(case.action, Drain) and view.is_draining(case.action.node)
            unseen = isinstance(case.action, Drain) and view.t_s <= case.from_s
            checked = view.t_s >= case.from_s + case.decision.check_after_s
            if isinstance(case.action, Drain):
                if not lasts and not unseen:
                    del self._cases[case.decision.id]
                    found.append((case.decision, _outcome(case, view, final=True)))
                elif checked and case.first:
                    found.append((case.decision, _outcome(case, view, final=False)))
                    case.from_s, case.gpu_s, case.first = case.seen_s, 0.0, False
            elif checked:
                del self._cases[case.decision.id]
                found.append((case.decision, _outcome(case, view, final=True)))
        return found

    def forget(self, decision: DecisionId) -> None:
        """Stop following a decision that failed after all."""
        self._cases.pop(decision, None)

    def so_far(self, _: ClusterView) -> tuple[Outcome, ...]:
        """Return nothing: these are known only at their check."""
        return ()

    def settle(self, _: ClusterView) -> list[Outcome]:
        """Return nothing: the next run goes on with them."""
        return []

    @staticmethod
    def _look(case: _Case, view: ClusterView) -> None:
        elapsed_s = max(0.0, view.t_s - case.seen_s)
        case.seen_s, case.step_s = max(view.t_s, case.seen_s), max(case.step_s, elapsed_s)
        row = view.node_row.get(case.action.node)
        if row is None:
            return
        used = view.gpus.users[view.gpus.node == row] > 0
        drains = isinstance(case.action, Drain)
        counted = ~used if drains else used
        case.gpu_s += (-1.0 if drains else 1.0) * elapsed_s * float(np.sum(counted))


def _outcome(case: _Case, view: ClusterView, *, final: bool) -> Outcome:
    drains = isinstance(case.action, Drain)
    half = case.step_s * len(case.action.gpus)
    words = "stood unused" if drains else "was used again"
    return Outcome(
        decision=case.decision.id,
        t_s=view.t_s,
        from_s=case.from_s,
        to_s=case.seen_s,
        gained=Interval(low=case.gpu_s - half, mid=case.gpu_s, high=case.gpu_s + half),
        expected=0.0,
        due_s=view.t_s,
        final=final,
        text=f"{abs(case.gpu_s) / 3600:.2f} GPU-hours of node {case.action.node} {words}",
        yardstick=SERVICE,
    )
