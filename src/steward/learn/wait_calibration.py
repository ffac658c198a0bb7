"""Limits of waits in the queue that hold: past waits against the draws that forecast them."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

__all__ = ["WaitCalibration"]

Floats = NDArray[np.float64]
_KEPT = 400
_PSEUDO = 20  # waits that a forecast without experience counts as having held
_LEAST_S = 60.0  # shorter waits are alike


class WaitCalibration:
    """Widen or narrow the draws around their median, on a logarithmic scale, by past misses.

    For each wait that is over it is noted how many half-ranges (median to 5 % or 95 %) it was away
    from the median. The limits go as far as 95 of 100 of those did on either side.
    """

    def __init__(self) -> None:
        self._below: deque[float] = deque([1.0] * _PSEUDO, maxlen=_KEPT)
        self._above: deque[float] = deque([1.0] * _PSEUDO, maxlen=_KEPT)

    def limits(self, draws_s: Floats) -> tuple[float, float, float]:
        """Return the wait's 5 %, 50 % and 95 %."""
        low, mid, high = _logs(draws_s)
        stretch_low = float(np.quantile(self._below, 0.9))
        stretch_high = float(np.quantile(self._above, 0.9))
        found = (mid - stretch_low * (mid - low), mid, mid + stretch_high * (high - mid))
        low_s, mid_s, high_s = (float(np.exp(each) - _LEAST_S) for each in found)
        return max(min(low_s, mid_s), 0.0), max(mid_s, 0.0), max(high_s, mid_s, 0.0)

    def learn(self, draws_s: Floats, wait_s: float) -> None:
        """Learn how long a job waited for which this was forecast."""
        low, mid, high = _logs(draws_s)
        off = float(np.log(wait_s + _LEAST_S)) - mid
        if off < 0.0:
            self._below.append(-off / max(mid - low, 0.05))
        else:
            self._above.append(off / max(high - mid, 0.05))


def _logs(draws_s: Floats) -> Floats:
    found: Floats = np.log(np.quantile(draws_s, (0.05, 0.5, 0.95)) + _LEAST_S)
    return found
