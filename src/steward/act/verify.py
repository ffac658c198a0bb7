"""Measures every decision by its action's yardstick: one place for all kinds of outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from steward.act.effects import Effects
from steward.act.energy_outcomes import EnergyOutcomes
from steward.act.job_outcomes import ReturnOutcomes, RunOutcomes, StopOutcomes
from steward.act.loan_outcomes import LoanOutcomes
from steward.act.move_outcomes import MoveOutcomes, ResizeOutcomes
from steward.act.node_outcomes import ServiceOutcomes
from steward.model.decision import Decision, Receipt
from steward.model.identity import DecisionId
from steward.model.outcome import Outcome, Story
from steward.model.view import ClusterView
from steward.ports import Meter, Verifier

__all__ = ["ClusterVerifier"]


class ClusterVerifier:
    """Hands each decision to those who can measure it, and collects what they found.

    As a `Learner` it keeps over a crash what was measured and is not yet an outcome.
    """

    name = "verifier"
    state_version = 1

    def __init__(
        self, *, quiet_share: float = 0.05, stale_after_s: float = 120.0, meter: Meter | None = None
    ) -> None:
        self._loans = LoanOutcomes(quiet_share=quiet_share, stale_after_s=stale_after_s)
        self._parts: Sequence[Verifier[ClusterView]] = (
            self._loans,
            RunOutcomes(),
            StopOutcomes(),
            MoveOutcomes(),
            ResizeOutcomes(),
            ReturnOutcomes(),
            ServiceOutcomes(),
            EnergyOutcomes(),
            Effects(meter),
        )

    def begin(self, decision: Decision, receipt: Receipt, view: ClusterView) -> None:
        """Start to follow a decision that was carried out or begun."""
        for each in self._parts:
            each.begin(decision, receipt, view)

    def resume(self, story: Story) -> None:
        """Go on with a decision of an earlier run."""
        for each in self._parts:
            each.resume(story)

    def follow(self, view: ClusterView) -> list[tuple[Decision, Outcome]]:
        """Take in one moment; return the outcomes that are due in it."""
        return [found for each in self._parts for found in each.follow(view)]

    def forget(self, decision: DecisionId) -> None:
        """Stop following a decision that failed after all."""
        for each in self._parts:
            each.forget(decision)

    def so_far(self, view: ClusterView) -> tuple[Outcome, ...]:
        """Return what open loans have brought since their last check; nothing is settled."""
        return tuple(outcome for each in self._parts for outcome in each.so_far(view))

    def settle(self, view: ClusterView) -> list[Outcome]:
        """Close the accounts up to now: steward is about to stop."""
        return [outcome for each in self._parts for outcome in each.settle(view)]

    def save_state(self) -> dict[str, Any]:
        """Return what was measured of open loans since their last checks."""
        return {"loans": self._loans.save_state()}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state, after the stories were resumed."""
        self._loans.restore_state(state["loans"])
