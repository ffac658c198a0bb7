"""Carries out nothing, and records what it would have done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from steward.model.actions import Action, Tell
from steward.model.decision import Decision, Receipt
from steward.model.event import Availability

__all__ = ["DryRun"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """The safe default: a receipt is `failed`, since nothing was changed, and names the action.

    Advice is given: the journal is where people of this site read it.
    """

    name: str = "dry-run"

    def available(self) -> Availability:
        return Availability(
            status="limited",
            reason="decisions are written down and not carried out",
            hint="no engine can be acted on yet but the simulated one: steward up --demo",
        )

    def actions(self) -> tuple[type[Action], ...]:
        return get_args(Action)

    def carry_out(self, decision: Decision, t_s: float) -> Receipt:
        action = decision.action
        if isinstance(action, Tell):
            text = f"told {action.to}: {action.text}"
            return Receipt(decision=decision.id, t_s=t_s, result="done", gpus=(), text=text)
        text = f"dry run, nothing was changed: {action.sentence}"
        return Receipt(decision=decision.id, t_s=t_s, result="failed", gpus=(), text=text)

    def progress(self, decision: Decision, t_s: float) -> Receipt:
        return self.carry_out(decision, t_s)
