"""Limits of waits in the queue that hold: past waits against the draws that forecast them.

What is learned is where in its forecast a wait was. Jobs that still wait count as beyond where
they are by now: waits of a queue that grows are known late, and those that are known are short.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["WaitCalibration"]

Floats = NDArray[np.float64]
_KEPT = 100  # waits that are over
_OPEN = 1000  # jobs that still wait
# Places that count beside those of past waits.
_BEFORE = tuple(1.2 * (i - 10) / 9.0 for i in range(1, 20))
_LEAST_RANGE = 0.2
_LEAST_S = 60.0  # shorter waits are alike
_AT_ONCE_S = 1.0
_PACE = 0.01
_TAIL, _LEAST_TAIL, _MOST_TAIL = 0.05, 0.005, 0.06


@dataclass(slots=True)
class _Asked:
    """A forecast of a job that waits: logarithms of its draws' 5 %, 50 % and 95 %, and limits."""

    now_s: float
    low: float
    mid: float
    high: float
    low_s: float = 0.0
    high_s: float = np.inf
    late: bool = False  # it waits longer than the upper limit, which was learned

    def place(self, wait_s: float) -> float:
        """Return how many half-ranges (median to 5 % or 95 %) a wait is above the median."""
        off = float(np.log(max(wait_s, 0.0) + _LEAST_S)) - self.mid
        return off / self.half_range(off)

    def half_range(self, side: float) -> float:
        return max(self.high - self.mid if side > 0.0 else self.mid - self.low, _LEAST_RANGE)

    def wait_s(self, place: float) -> float:
        """Return the wait at a place."""
        log_s = self.mid + place * self.half_range(place)
        return max(float(np.exp(log_s) - _LEAST_S), 0.0)


class WaitCalibration:
    """Move the median of draws and widen their limits, on a logarithmic scale, by past waits.

    Limits are where 5 and 95 of 100 places were (Kaplan and Meier's estimate, as those of jobs that
    still wait are cut off), and go further out after misses. Jobs that started at once, when no
    draw said otherwise, tell nothing of waits and are left out.
    """

    def __init__(self) -> None:
        self._places: deque[float] = deque(maxlen=_KEPT)
        self._open: OrderedDict[Hashable, _Asked] = OrderedDict()
        self._tails = [_TAIL, _TAIL]

    def limits(self, key: Hashable, now_s: float, draws_s: Floats) -> tuple[float, float, float]:
        """Return the 5 %, 50 % and 95 % of the wait of a job that comes now, and remember it."""
        low, mid, high = np.log(np.quantile(draws_s, (0.05, 0.5, 0.95)) + _LEAST_S).tolist()
        asked = _Asked(now_s, low, mid, high)
        self._find_late(now_s)
        place_of = self._place_of(now_s)
        shares = (self._tails[0], 0.5, 1.0 - self._tails[1])
        low_s, mid_s, high_s = (asked.wait_s(place_of(share)) for share in shares)
        asked.low_s, asked.high_s = low_s, high_s
        self._open[key] = asked
        while len(self._open) > _OPEN:
            self._open.popitem(last=False)
        return low_s, mid_s, high_s

    def started(self, key: Hashable, now_s: float) -> None:
        """Learn that a job has started; one that is not remembered is left out."""
        asked = self._open.pop(key, None)
        if asked is None:
            return
        wait_s = now_s - asked.now_s
        if wait_s <= _AT_ONCE_S and np.exp(asked.high) - _LEAST_S <= _AT_ONCE_S:
            return
        self._places.append(asked.place(wait_s))
        self._move(0, missed=wait_s < asked.low_s - _AT_ONCE_S)
        if not asked.late:
            self._move(1, missed=wait_s > asked.high_s + _AT_ONCE_S)

    def _find_late(self, now_s: float) -> None:
        for asked in self._open.values():
            if not asked.late and now_s - asked.now_s > asked.high_s + _AT_ONCE_S:
                asked.late = True
                self._move(1, missed=True)

    def _move(self, side: int, *, missed: bool) -> None:
        tail = self._tails[side] + _PACE * (_TAIL - float(missed))
        self._tails[side] = min(max(tail, _LEAST_TAIL), _MOST_TAIL)

    def _place_of(self, now_s: float) -> Callable[[float], float]:
        """Return the function from a share to the place below which that share of waits is."""
        over = np.array((*_BEFORE, *self._places))
        still = np.array([each.place(now_s - each.now_s) for each in self._open.values()])
        places = np.concatenate((over, still))
        ended = np.repeat((True, False), (len(over), len(still)))
        order = np.lexsort((~ended, places))
        places, ended = places[order], ended[order]
        at_risk = np.arange(len(places), 0, -1)
        below = 1.0 - np.cumprod(np.where(ended, 1.0 - 1.0 / at_risk, 1.0))
        # Where too few have ended to know: at least as far as any wait is by now. That says nothing
        # of the middle, which stays at what ended furthest out.
        furthest = float(over.max())

        def place_of(share: float) -> float:
            at = int(np.searchsorted(below, share))
            if at < len(places):
                return float(places[at])
            return furthest if share <= 0.5 else max(furthest, float(places[-1]))

        return place_of
