"""Moments in which jobs run, with what is believed of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from factories import column
from steward.model.forecast import RUN_LEFT_S, SLOWDOWN_SHARE, About, ForecastColumn
from steward.model.view import ClusterView

__all__ = ["with_beliefs"]


def with_beliefs(
    seen: ClusterView,
    *,
    left_s: float | Mapping[str, float] | None = 36_000.0,
    slower: Mapping[str, float] | None = None,
) -> ClusterView:
    """Return a moment in which jobs run for so much longer, and are slower by so much."""
    columns: list[ForecastColumn] = []
    ids = [str(each) for each in seen.jobs.ids]
    if left_s is not None:
        given: Any = left_s if isinstance(left_s, Mapping) else dict.fromkeys(ids, left_s)
        values = np.array([given.get(each, np.nan) for each in ids])
        columns.append(column(RUN_LEFT_S, values, about=About.JOBS))
    if slower is not None:
        values = np.array([slower.get(each, np.nan) for each in ids])
        columns.append(column(SLOWDOWN_SHARE, values, about=About.JOBS))
    return seen.with_forecasts(columns)
