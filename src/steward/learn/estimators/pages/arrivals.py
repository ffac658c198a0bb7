"""What is expected of pages that nobody has touched yet, and of the link over a longer time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steward.model.memory.ranking import saved_now_s
from steward.model.memory.view import MemoryView

__all__ = ["PageArrivals"]


@dataclass(slots=True, kw_only=True)
class PageArrivals:
    """How many pages are new in an epoch, and how often they are accessed from then on."""

    fade: float = 0.8  # of what was seen, by epoch
    peak_fade: float = 0.95  # of the most new pages: they come in bursts, and room keeps
    saved_fade: float = 0.95
    pages: float = 0.0
    accesses: float = 0.0
    trapped: float = 0.0
    saved_s: float = 0.0
    _measured_s: float = 0.0  # faded sums: time, and far accesses that fit into it
    _fitting: float = 0.0
    _known: NDArray[np.bool_] = field(init=False)
    _epochs: int = 0

    def __post_init__(self) -> None:
        self._known = np.zeros(0, np.bool_)

    def learn(self, view: MemoryView, expected: NDArray[np.float64]) -> NDArray[np.int64]:
        """Take in one epoch; return the rows that were touched in it for the first time."""
        if len(self._known) != len(view.tier):
            self._known = np.zeros(len(view.tier), np.bool_)
        new = view.touched[~self._known[view.touched]].astype(np.int64)
        self._known[new] = True
        kept = self.fade if self._epochs else 0.0
        self.pages = max(float(len(new)), self.peak_fade * self.pages)
        if len(new):
            each = float(view.count[new].mean() + expected[new].mean())
            self.accesses = kept * self.accesses + (1.0 - kept) * each
        self.trapped = kept * self.trapped + (1.0 - kept) * view.trapped
        self._measure(view)
        self._epochs += 1
        return np.sort(new)

    def _measure(self, view: MemoryView) -> None:
        """Take in how long far accesses took, by time: under a high load there are fewer."""
        link = view.link
        far_s, took_s = link.far_access_s, link.measured_s
        if far_s <= 0.0 or took_s <= 0.0:
            self.saved_s = self.saved_s or saved_now_s(view)
            return
        self._measured_s = self.saved_fade * self._measured_s + took_s
        self._fitting = self.saved_fade * self._fitting + took_s / far_s
        self.saved_s = max(0.0, self._measured_s / self._fitting - view.system.access_s(0))
