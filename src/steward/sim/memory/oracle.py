"""The true future of a trace, in the place of what is estimated."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steward.model.memory.trace import AccessTrace
from steward.model.memory.view import MemoryForecasts, MemoryView, Moves
from steward.sim.memory.background import Background

__all__ = ["TrueFuture"]

_SUMMED_AGAIN = 32  # epochs: each step divides by the discount, and rounding errors with it
_NEGLIGIBLE = 1e-6


@dataclass(slots=True, kw_only=True)
class TrueFuture:
    """Answers with the accesses that each page is going to have, later ones counting less."""

    trace: AccessTrace
    epoch_accesses: int
    discount: float = 0.97
    name: str = "true-future"
    background: Background = field(default_factory=Background.quiet)
    _later: NDArray[np.float64] = field(init=False)
    _saved_s: float = 0.0

    def __post_init__(self) -> None:
        self._later = np.zeros(self.trace.pages)

    def learn(self, view: MemoryView) -> None:
        """Go on to what comes after this epoch: what is behind is taken off the sums."""
        if not self._saved_s:
            system, last = view.system, len(view.system.tiers) - 1
            far_s = [system.access_s(last, load) for load in self.background.share.tolist()]
            self._saved_s = float(1.0 / np.mean(1.0 / np.array(far_s))) - system.access_s(0)
        if view.epoch % _SUMMED_AGAIN == 0:
            self._later = self._sums_after(view.epoch)
            return
        begin = view.epoch * self.epoch_accesses
        now = np.bincount(
            self.trace.page[begin : begin + self.epoch_accesses], minlength=self.trace.pages
        )
        self._later = (self._later - now) / self.discount
        self._later[self._later < _NEGLIGIBLE] = 0.0

    def _sums_after(self, epoch: int) -> NDArray[np.float64]:
        begin = (epoch + 1) * self.epoch_accesses
        later = np.arange(max(0, len(self.trace) - begin)) // self.epoch_accesses
        sums = np.bincount(
            self.trace.page[begin:], weights=self.discount**later, minlength=self.trace.pages
        )
        return sums.astype(np.float64)

    def predict(self, view: MemoryView) -> MemoryForecasts:
        """Return what is going to be; new pages with what is expected of them on average."""
        begin = (view.epoch + 1) * self.epoch_accesses
        coming = np.unique(self.trace.page[begin : begin + self.epoch_accesses])
        new = coming[view.tier[coming] < 0]
        return MemoryForecasts(
            accesses=self._later,
            saved_s=self._saved_s,
            new_pages=float(len(new)),
            new_accesses=float(self._later[new].mean()) if len(new) else 0.0,
        )

    def took(self, _: MemoryView, __: Moves) -> None:
        """Nothing is learned: all is known."""
