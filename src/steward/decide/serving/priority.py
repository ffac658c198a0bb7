"""Classes by rank, by arrival within a class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steward.decide.serving.assignment import placed
from steward.model.serving.view import Dispatch, ServingView

__all__ = ["Priority"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Priority:
    """One queue by rank; each request goes to the instance with the fewest in flight."""

    name: str = "priority"

    def dispatch(self, view: ServingView) -> Dispatch:
        rank = np.array([each.rank for each in view.classes], np.float64)
        return placed(view, key=lambda rows: rank[view.requests.deadline_class[rows]])
