"""Means of a rate that changes with the hour: carbon of a grid, price of an instance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.model.planning.carbon import HOUR_S

__all__ = ["HourlyRate", "best_start"]

Floats = NDArray[np.float64]
_WORTH_IT = 0.99  # a start later that saves less than a hundredth is none


@dataclass(frozen=True, slots=True, eq=False)
class HourlyRate:
    """A rate by the hour from `from_s` on; `beyond` is its mean after the last hour."""

    from_s: float
    to_s: float
    beyond: float
    _edges_s: Floats
    _summed: Floats  # until each edge

    @classmethod
    def of(
        cls, values: Sequence[float], from_s: float, *, beyond: float | None = None
    ) -> HourlyRate:
        """Return the rate of some hours; without `beyond`, their mean goes on after them."""
        hours = np.asarray(values, np.float64)
        edges_s = np.asarray(from_s + HOUR_S * np.arange(len(hours) + 1), np.float64)
        return cls(
            from_s=from_s,
            to_s=float(edges_s[-1]),
            beyond=float(hours.mean()) if beyond is None else beyond,
            _edges_s=edges_s,
            _summed=np.concatenate([[0.0], np.cumsum(hours) * HOUR_S]),
        )

    def mean(self, begin_s: Floats | float, length_s: Floats | float) -> Floats:
        """Return the mean over a length of time above 0, for each."""
        begin = np.asarray(begin_s, np.float64)
        return (self._until(begin + length_s) - self._until(begin)) / length_s

    def _until(self, t_s: Floats) -> Floats:
        inside = np.interp(t_s, self._edges_s, self._summed)
        return np.asarray(inside + np.maximum(t_s - self.to_s, 0.0) * self.beyond, np.float64)


def best_start(
    rate: HourlyRate, *, now_s: float, latest_s: float, wait_s: float, length_s: float
) -> float | None:
    """Return the start in steps of an hour with the least mean; None: now is as good.

    It has to run within the hours that are known.
    """
    latest = min(latest_s, rate.to_s - wait_s - length_s)
    starts = np.arange(now_s, latest + 1.0, HOUR_S)
    if len(starts) < 2:
        return None
    means = rate.mean(starts + wait_s, length_s)
    best = int(means.argmin())
    return float(starts[best]) if means[best] < _WORTH_IT * means[0] else None
