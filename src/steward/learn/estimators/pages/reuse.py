"""How often a page is going to be accessed while it is near, by what its past looks like.

Each page is in a class: how often it was accessed in the last epoch, for how many epochs in a row
(the burst), since when it is idle, and its accesses over a longer time. The expected accesses of a
class are learned from all pages that were in it: those of the next epoch, and from there on what is
expected of the class that the page is in then, each epoch further counting a little less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.model.memory.view import MemoryView

__all__ = ["PageReuse"]

Floats = NDArray[np.float64]
_RATES, _COUNTS, _BURSTS, _IDLE = 10, 7, 3, 8
_CLASSES = (_COUNTS * _BURSTS + _IDLE) * _RATES
_UNSEEN = -1


@njit
def _rate_level(rate: float) -> int:
    """Return 0 for below 1/64 accesses an epoch, and one more for each doubling twice."""
    level, limit = 0, 1.0 / 64.0
    while level < _RATES - 1 and rate >= limit:
        level += 1
        limit *= 3.0
    return level


@njit
def _log_level(count: int, most: int) -> int:
    level = 0
    while count > 1 and level < most:
        count >>= 1
        level += 1
    return level


@njit
def _class_of(count: int, burst: int, idle: int, rate: float) -> int:
    if count > 0:
        length = min(_BURSTS - 1, _log_level(burst, _BURSTS))
        first = _log_level(count, _COUNTS - 1) * _BURSTS + length
    else:
        first = _COUNTS * _BURSTS + _log_level(idle, _IDLE - 1)
    return first * _RATES + _rate_level(rate)


@njit
def _fold(  # noqa: C901, PLR0913, PLR0917 - one pass over arrays that are changed
    tier: NDArray[np.int8],
    count: NDArray[np.int32],
    idle: NDArray[np.int32],
    rate: Floats,
    burst: NDArray[np.int32],
    klass: NDArray[np.int32],
    table: Floats,
    expected: Floats,
    keep: tuple[float, float, float],
) -> None:
    """Take in one epoch: change rates, bursts and classes, the table, and what is expected.

    Rows of the table: expected accesses, the evidence behind each, two sums of this epoch, and the
    same for pages of the class that were accessed.
    """
    discount, fade, rate_fade = keep
    table[2:4] = 0.0
    table[6:] = 0.0
    for page in range(len(tier)):
        if tier[page] < 0:
            continue
        now = count[page]
        rate[page] = rate_fade * rate[page] + (1.0 - rate_fade) * now
        burst[page] = burst[page] + 1 if now > 0 else 0
        new = _class_of(now, burst[page], idle[page], rate[page])
        old = klass[page]
        if old >= 0:
            table[2, old] += now + discount * table[0, new]
            table[3, old] += 1.0
            if now > 0:
                table[6, old] += now + discount * table[0, new]
                table[7, old] += 1.0
        klass[page] = new
    for first in (0, 4):
        for each in range(table.shape[1]):
            table[first + 1, each] *= fade
            if table[first + 3, each] > 0.0:
                table[first + 1, each] += table[first + 3, each]
                mean = table[first + 2, each] / table[first + 3, each]
                weight = table[first + 3, each] / table[first + 1, each]
                table[first, each] += weight * (mean - table[first, each])
    for page in range(len(tier)):
        seen = klass[page] >= 0
        expected[0, page] = table[0, klass[page]] if seen else 0.0
        expected[1, page] = table[4, klass[page]] if seen else 0.0


def _first_table(discount: float) -> Floats:
    """Return what is believed before anything was seen: that rates go on for a few epochs."""
    table = np.zeros((8, _CLASSES))
    rate = np.arange(_CLASSES) % _RATES
    mean = np.where(rate > 0, 3.0 ** (rate - 0.5) / 64.0, 0.0)
    table[0] = mean * min(8.0, 1.0 / (1.0 - discount))
    table[1] = table[5] = 4.0
    table[4] = 1.0 + table[0]
    return table


@dataclass(slots=True, kw_only=True)
class PageReuse:
    """The table of classes, and the state of each page. Rows are those of the view."""

    discount: float = 0.985  # of accesses one epoch later
    fade: float = 0.9  # of evidence, by epoch
    rate_fade: float = 0.8
    name: str = "page-reuse"
    _table: Floats = field(init=False)
    _expected: Floats = field(init=False)
    _rate: Floats = field(init=False)
    _burst: NDArray[np.int32] = field(init=False)
    _class: NDArray[np.int32] = field(init=False)

    def __post_init__(self) -> None:
        self._table = _first_table(self.discount)
        self._resize(0)

    def _resize(self, pages: int) -> None:
        self._expected, self._rate = np.zeros((2, pages)), np.zeros(pages)
        self._burst = np.zeros(pages, np.int32)
        self._class = np.full(pages, _UNSEEN, np.int32)

    def learn(self, view: MemoryView) -> None:
        """Take in one epoch. Where other pages than before are shown, theirs begins anew."""
        if len(view.tier) != len(self._rate):
            self._resize(len(view.tier))
        keep = (self.discount, self.fade, self.rate_fade)
        _fold(
            view.tier,
            view.count,
            view.idle,
            self._rate,
            self._burst,
            self._class,
            self._table,
            self._expected,
            keep,
        )

    def expected(self, pages: int) -> Floats:
        """Return the accesses expected of each page."""
        return self._expected[0] if len(self._rate) == pages else np.zeros(pages)

    def after_touch(self, pages: int) -> Floats:
        """Return the accesses expected of each page from its next one on, were that now."""
        return self._expected[1] if len(self._rate) == pages else np.zeros(pages)

    def save_state(self) -> dict[str, Any]:
        """Return what was learned of classes; pages are other ones the next time."""
        return {"discount": self.discount, "table": self._table.tolist()}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state. Raise on one that does not fit."""
        table = np.asarray(state["table"], np.float64).reshape(8, _CLASSES)
        if state["discount"] != self.discount:
            raise ValueError("it counts later accesses differently")
        self._table = table.copy()
