"""Limits of waits in the queue that hold: past waits against the draws that forecast them."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

__all__ = ["WaitCalibration"]

Floats = NDArray[np.float64]
_KEPT = 300
_BEFORE = [1.2 * (i - 10) / 9.0 for i in range(1, 20)]  # places before any wait is over
_LEAST_RANGE = 0.05
_LEAST_S = 60.0  # shorter waits are alike


class WaitCalibration:
    """Move and widen the limits of draws, on a logarithmic scale, by past waits.

    For each wait that is over it is noted how many half-ranges (median to 5 % or 95 %) it was above
    or below the median. Limits are where 5 and 95 of 100 of those were.
    """

    def __init__(self) -> None:
        self._places: deque[float] = deque(_BEFORE, maxlen=_KEPT)

    def limits(self, draws_s: Floats) -> tuple[float, float, float]:
        """Return the wait's 5 %, 50 % and 95 %."""
        low, mid, high = _logs(draws_s)
        least, most = np.quantile(self._places, (0.05, 0.95)).tolist()
        found = [
            mid + place * max(high - mid if place > 0.0 else mid - low, _LEAST_RANGE)
            for place in (least, 0.0, most)
        ]
        low_s, mid_s, high_s = (max(float(np.exp(each) - _LEAST_S), 0.0) for each in found)
        return min(low_s, mid_s), mid_s, max(high_s, mid_s)

    def learn(self, draws_s: Floats, wait_s: float) -> None:
        """Learn how long a job waited for which this was forecast."""
        low, mid, high = _logs(draws_s)
        off = float(np.log(wait_s + _LEAST_S)) - mid
        self._places.append(off / max(high - mid if off > 0.0 else mid - low, _LEAST_RANGE))


def _logs(draws_s: Floats) -> Floats:
    found: Floats = np.log(np.quantile(draws_s, (0.05, 0.5, 0.95)) + _LEAST_S)
    return found
