"""Carries out nothing, and says what it would have done."""

from __future__ import annotations

from dataclasses import dataclass

from steward.model.actions import Action, Drain, Tell
from steward.model.decision import Decision, Receipt
from steward.model.event import Availability

__all__ = ["DryRun", "told"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """The safe default: a receipt says `failed`, since nothing was changed, and names the deed.

    What is only to be said is said: the journal is where people of this site read it.
    """

    name: str = "dry-run"

    def available(self) -> Availability:
        return Availability(
            status="limited",
            reason="decisions are written down and not carried out",
            hint="set act.actuator to the engine that this site runs",
        )

    def carry_out(self, decision: Decision, t_s: float) -> Receipt:
        action = decision.action
        if isinstance(action, Tell):
            return Receipt(decision=decision.id, t_s=t_s, result="done", gpus=(), text=told(action))
        return Receipt(decision=decision.id, t_s=t_s, result="failed", gpus=(), text=_would(action))


def told(action: Tell) -> str:
    """Say what was said, and to whom."""
    return f"told {action.to}: {action.text}"


def _would(action: Action) -> str:
    whose = f"node {action.node}" if isinstance(action, Drain) else f"job {action.moves}"
    return f"dry run: would {action.type} {', '.join(action.gpus)} ({whose})"
