"""Columns of a file become groups: one value per window, group and statistic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.learn.patterns.groups import Combine, MetricGroup
from steward.learn.patterns.window_statistics import Statistic

__all__ = ["Combiner", "group_names"]

Floats = NDArray[np.float32]


def group_names(groups: Sequence[MetricGroup], statistics: Sequence[Statistic]) -> tuple[str, ...]:
    """Return the names of what is cut into levels: `gpu_util`, `gpu_util.slope`, ..."""
    return tuple(
        group.name if statistic == "median" else f"{group.name}.{statistic}"
        for statistic in statistics
        for group in groups
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Combiner:
    """What `WindowFold` calls; an object, so that it has no hidden state."""

    groups: Sequence[MetricGroup]
    members: Sequence[Sequence[int]]
    statistics: Sequence[Statistic]

    def __call__(self, figures: Mapping[Statistic, Floats]) -> Floats:
        """Return windows x (statistics x groups)."""
        columns = [
            _combined(figures[statistic][list(places)], _how(group, statistic))
            if places
            else np.full(figures[statistic].shape[1], np.nan, np.float32)
            for statistic in self.statistics
            for group, places in zip(self.groups, self.members, strict=True)
        ]
        return np.stack(columns, axis=1)


def _how(group: MetricGroup, statistic: Statistic) -> Combine:
    """Return how columns are combined: a spread of a sum is not the sum of spreads."""
    adds_up = statistic in ("median", "slope")
    return group.combine if adds_up or group.combine != "sum" else "median"


def _combined(rows: Floats, how: Combine) -> Floats:
    """Combine columns that are known; NaN where none is."""
    if len(rows) == 1:
        alone: Floats = rows[0]
        return alone
    known = ~np.isnan(rows)
    count = known.sum(axis=0)
    with np.errstate(invalid="ignore"):
        if how in ("sum", "mean"):
            total = np.where(known, rows, 0.0).sum(axis=0, dtype=np.float64)
            found = total if how == "sum" else total / np.maximum(count, 1)
        elif how == "max":
            found = np.where(known, rows, -np.inf).max(axis=0)
        elif how == "min":
            found = np.where(known, rows, np.inf).min(axis=0)
        else:
            ordered = np.sort(rows, axis=0)
            low = np.take_along_axis(ordered, np.maximum(count - 1, 0)[None] // 2, axis=0)[0]
            high = np.take_along_axis(ordered, np.minimum(count // 2, len(rows) - 1)[None], axis=0)
            found = (low.astype(np.float64) + high[0]) / 2
    result = np.empty(rows.shape[1], np.float32)
    result[:] = np.where(count > 0, found, np.nan)
    return result
