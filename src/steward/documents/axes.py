"""Axes of a chart: where a value lies, and which values are written beside it."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np
from numpy.typing import NDArray

__all__ = ["Axis", "axis_of"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A range of values on a range of pixels; logarithmic where a picture needs it."""

    low: float
    high: float
    from_px: float
    to_px: float
    log: bool = False

    def at(self, values: Floats | float) -> Floats:
        """Return where values lie; what is beyond the range lies at its end."""
        inside = np.clip(np.asarray(values, np.float64), self.low, self.high)
        low, high = self.low, self.high
        if self.log:
            inside, low, high = np.log10(inside), log10(low), log10(high)
        share = (inside - low) / (high - low)
        return np.asarray(self.from_px + share * (self.to_px - self.from_px), np.float64)

    def ticks(self, *, about: int = 5) -> list[float]:
        """Return round values within the range."""
        if self.log:
            return _log_ticks(self.low, self.high, about)
        rough = (self.high - self.low) / about
        if not rough > 0:  # less than a number can hold
            return [self.low]
        size = 10.0 ** floor(log10(rough))
        step = next(size * unit for unit in (1, 2, 5, 10) if size * unit >= rough * (1 - 1e-9))
        first, last = ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9)
        return [round(i * step, 12) for i in range(first, last + 1)]


def axis_of(values: Floats, *, px: tuple[float, float], log: bool = False) -> Axis:
    """Return an axis on which all values have their place."""
    known = values[np.isfinite(values)]
    known = known[known > 0] if log else known
    low, high = (float(known.min()), float(known.max())) if len(known) else (1.0, 10.0)
    if not log:
        low = min(low, 0.0)
    if not high > low:
        low, high = (low / 2, high * 2) if log else (low, low + 1.0)
    return Axis(low=low, high=high, from_px=px[0], to_px=px[1], log=log)


def _log_ticks(low: float, high: float, about: int) -> list[float]:
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    units = (1, 2, 5) if log10(high / low) < about / 2 else (1,)
    found = [unit * 10.0**decade for decade in decades for unit in units]
    inside = [value for value in found if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
    every = max(1, ceil(len(inside) / (about + 1)))
    return inside[::every]
