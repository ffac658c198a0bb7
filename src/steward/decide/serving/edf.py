"""Earliest deadline first."""

from __future__ import annotations

from dataclasses import dataclass

from steward.decide.serving.assignment import placed
from steward.model.serving.view import Dispatch, ServingView

__all__ = ["Edf"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edf:
    """One queue by deadline; each request goes to the instance with the fewest in flight."""

    name: str = "edf"

    def dispatch(self, view: ServingView) -> Dispatch:
        return placed(view, key=lambda rows: view.requests.deadline_s[rows])
