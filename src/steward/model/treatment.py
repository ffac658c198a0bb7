"""What a rule of optimisation does about what it finds, and how one sees whether it helped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Effect", "Treatment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A promise that can be checked: how the mean of an expression changes by the check."""

    expr: str  # PromQL, looked at for the entity of the finding, before and after
    direction: Literal["up", "down"]
    at_least: float  # change of the mean, in the unit of the expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Treatment:
    """The block `steward` of a rule: from pattern to measured outcome in one file."""

    action: str  # type of the action, such as `lend`, `preempt`, `tell`
    advice: str  # what a person would do by hand; shown with the finding
    precondition: str = ""  # PromQL that must hold for the entity when it is done; '': nothing
    effect: Effect | None = None
    check_after_s: float = 600.0
    undo: str = ""  # type of the action that takes it back; '' where nothing has to be undone
