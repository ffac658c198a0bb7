"""Round times along an axis."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor, log10

from steward.documents import Axis
from steward.sim.lab.report.formatting import span

__all__ = ["time_ticks"]

_ROUND_TIMES_S = (
    *(1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0),
    *(3600.0, 7200.0, 10800.0, 21600.0, 43200.0),
    *(86400.0, 2 * 86400.0, 5 * 86400.0, 10 * 86400.0, 20 * 86400.0, 50 * 86400.0),
    *(100 * 86400.0, 200 * 86400.0, 500 * 86400.0, 1000 * 86400.0),
)


def time_ticks(axis: Axis, *, about: int = 6) -> list[tuple[float, str]]:
    """Return round times within the range, and how they read."""
    if axis.log:
        inside = [t for t in _ROUND_TIMES_S if axis.low <= t <= axis.high]
        return [(t, span(t)) for t in _thinned(inside, about, lambda t: float(axis.at(t)))]
    rough = (axis.high - axis.low) / about
    step = next((t for t in _ROUND_TIMES_S if t >= rough), 10.0 ** ceil(log10(max(rough, 1.0))))
    first, last = ceil(axis.low / step - 1e-9), floor(axis.high / step + 1e-9)
    return [(i * step, span(i * step)) for i in range(first, last + 1)]


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
