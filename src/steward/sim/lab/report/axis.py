"""Axes of a picture: where a value lies, and which values are written beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np
from numpy.typing import NDArray

from steward.sim.lab.report.formatting import span

__all__ = ["Axis", "axis_of", "time_ticks"]

Floats = NDArray[np.float64]
_ROUND_TIMES_S = (
    *(1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0),
    *(3600.0, 7200.0, 10800.0, 21600.0, 43200.0),
    *(86400.0, 2 * 86400.0, 5 * 86400.0, 10 * 86400.0, 20 * 86400.0, 50 * 86400.0),
    *(100 * 86400.0, 200 * 86400.0, 500 * 86400.0, 1000 * 86400.0),
)


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


def time_ticks(axis: Axis, *, about: int = 6) -> list[tuple[float, str]]:
    """Return round times within the range, and how they read."""
    if axis.log:
        inside = [t for t in _ROUND_TIMES_S if axis.low <= t <= axis.high]
        return [(t, span(t)) for t in _thinned(inside, about, lambda t: float(axis.at(t)))]
    rough = (axis.high - axis.low) / about
    step = next((t for t in _ROUND_TIMES_S if t >= rough), 10.0 ** ceil(log10(max(rough, 1.0))))
    first, last = ceil(axis.low / step - 1e-9), floor(axis.high / step + 1e-9)
    return [(i * step, span(i * step)) for i in range(first, last + 1)]


def _log_ticks(low: float, high: float, about: int) -> list[float]:
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    units = (1, 2, 5) if log10(high / low) < about / 2 else (1,)
    found = [unit * 10.0**decade for decade in decades for unit in units]
    inside = [value for value in found if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
    every = max(1, ceil(len(inside) / (about + 1)))
    return inside[::every]


def _thinned(values: list[float], about: int, at: Callable[[float], float]) -> list[float]:
    """Keep values that lie far enough apart for their words."""
    if not values:
        return []
    room = abs(at(values[-1]) - at(values[0])) / max(1, about) * 0.8
    kept = values[:1]
    for value in values[1:]:
        if abs(at(value) - at(kept[-1])) >= room:
            kept.append(value)
    return kept
