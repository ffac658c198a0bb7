"""Carries out nothing, and says what it would have done."""

from __future__ import annotations

from dataclasses import dataclass

from steward.model.decision import Decision, Receipt
from steward.model.event import Availability

__all__ = ["DryRun"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """The safe default: a receipt says `failed`, since nothing was changed, and names the deed."""

    name: str = "dry-run"

    def available(self) -> Availability:
        return Availability(
            status="limited",
            reason="decisions are written down and not carried out",
            hint="set act.actuator to the engine that this site runs",
        )

    def carry_out(self, decision: Decision, t_s: float) -> Receipt:
        action = decision.action
        return Receipt(
            decision=decision.id,
            t_s=t_s,
            result="failed",
            gpus=(),
            text=f"dry run: would {action.type} {', '.join(action.gpus)} (job {action.moves})",
        )
