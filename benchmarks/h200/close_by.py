"""What a reading costs a job whose speed varies by itself, seen close by.

A step that is bound by launches takes a tenth more or less from one third of a second to the next,
whatever steward does: garbage collection, pinned threads and stolen time do not explain it, so it
is probably the host of the virtual machine. Blocks of seconds with and without sampling would need
hours. Therefore the steps in which the driver is asked are compared with those right around them,
and the same is done half a period later, when nobody asks: long steps are met more often than short
ones at any moment, and the difference is free of that. What a recorder would cost while it sleeps
is not seen this way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["around", "beyond", "in_runs", "interval"]

Floats = NDArray[np.float64]


def around(marks: Floats, t_s: Floats, count: int = 3) -> Floats:
    """Return what the step at each moment and the next two took more than three on either side."""
    first = np.searchsorted(marks, t_s, side="right") - 1

    def of(start: NDArray[np.intp]) -> Floats:
        return np.asarray(marks[start + count] - marks[start])

    return of(first) - (of(first - count) + of(first + count)) / 2


def beyond(marks: Floats, t_s: Floats, every_s: float) -> Floats:
    """Return what each reading added to the steps around it, beyond what any moment seems to."""
    half = np.random.default_rng(4).uniform(0.4, 0.6, len(t_s)) * every_s
    return around(marks, t_s) - around(marks, t_s + half)


def in_runs(values: Floats, length: int = 20) -> Floats:
    """Return means of neighbours, which are alike."""
    count = len(values) // length * length
    return np.asarray(values[:count].reshape(-1, length).mean(axis=1))


def interval(values: Floats, draws: int = 10_000) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the mean."""
    random = np.random.default_rng(4)
    means = values[random.integers(0, len(values), (draws, len(values)))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)
