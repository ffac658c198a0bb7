"""What a way to look at telemetry has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.metric.arranging import Arranged
from steward.decide.rules.metric.kernels import NEVER_NS, Floats, Longs, Points, Stretches
from steward.decide.rules.metric.promql.vectors import Labels

__all__ = ["Seen", "Way", "no_stretches", "only", "widened"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """What a condition was worth: the points of each series, and the values at them."""

    points: Points
    values: Floats


class Way(Protocol):
    """How one term looks at telemetry."""

    @property
    def state(self) -> Stretches:
        """Since when it holds, for each series."""
        ...

    @property
    def gap_ns(self) -> int:
        """After how long without a look something has to begin anew."""
        ...

    @property
    def due_ns(self) -> int:
        """The earliest time at which something can be looked at without new samples."""
        ...

    def take(self, rows: Arranged | None, clock_ns: int, *, last: bool = False) -> Iterator[Seen]:
        """Look at all that can be looked at until now; `last` says that nothing more will come."""
        ...

    def whose(self, series: int) -> tuple[str, Labels]:
        """Return the entity and the labels of a series."""
        ...


def no_stretches() -> Stretches:
    """Return the state of no series."""
    none = np.zeros(0, np.int64)
    return Stretches(none, np.zeros(0, bool), none, none)


def widened(state: Stretches, size: int) -> Stretches:
    """Return the state with more series, which do not hold yet."""
    more = size - len(state.since)
    if not more:
        return state
    return Stretches(
        np.append(state.since, np.full(more, -1)),
        np.append(state.told, np.zeros(more, bool)),
        np.append(state.last, np.full(more, -NEVER_NS)),
        np.append(state.step, np.zeros(more, np.int64)),
    )


def only(state: Stretches, kept: NDArray[np.bool_] | Longs) -> Stretches:
    """Return the state of some of the series."""
    return Stretches(state.since[kept], state.told[kept], state.last[kept], state.step[kept])
