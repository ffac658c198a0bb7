"""First come, first served."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.serving.assignment import placed
from steward.model.serving.view import Dispatch, ServingView

__all__ = ["Fcfs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fcfs:
    """One queue by arrival; each request goes to the instance with the fewest in flight."""

    name: str = "fcfs"

    def dispatch(self, view: ServingView) -> Dispatch:
        return placed(view)
