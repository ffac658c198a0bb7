"""Instances in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steward.decide.serving.assignment import placed
from steward.model.serving.view import Dispatch, ServingView

__all__ = ["RoundRobin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRobin:
    """One queue by arrival; request number n goes to instance n modulo their number."""

    name: str = "round-robin"

    def dispatch(self, view: ServingView) -> Dispatch:
        return placed(view, _in_turn)


def _in_turn(view: ServingView, request: int, choices: Sequence[int]) -> int:
    turn = request % len(view.instances)
    return min(choices, key=lambda row: (row - turn) % len(view.instances))
