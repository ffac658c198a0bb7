"""Points at which a metric term is evaluated, and the state of its series."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.metric.kernels import NEVER_NS, Floats, HoldState, Longs, Points
from steward.decide.rules.metric.sorted_frame import SortedFrame
from steward.decide.rules.promql.vectors import Labels

__all__ = ["EvaluatedPoints", "TermEvaluation", "no_series", "only", "widened"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EvaluatedPoints:
    """Values of a condition: the points of each series, and the values at them."""

    points: Points
    values: Floats


class TermEvaluation(Protocol):
    """Evaluation of one term over telemetry."""

    @property
    def state(self) -> HoldState:
        """Since when it holds, for each series."""
        ...

    @property
    def gap_ns(self) -> int:
        """The gap between evaluations after which a condition starts anew."""
        ...

    @property
    def due_ns(self) -> int:
        """The earliest time at which an evaluation is due without new samples."""
        ...

    def add(
        self, rows: SortedFrame | None, clock_ns: int, *, last: bool = False
    ) -> Iterator[EvaluatedPoints]:
        """Evaluate all that is due until now; `last`: no more samples will come."""
        ...

    def identity(self, series: int) -> tuple[str, Labels]:
        """Return the entity and the labels of a series."""
        ...


def no_series() -> HoldState:
    """Return the empty state."""
    none = np.zeros(0, np.int64)
    return HoldState(none, np.zeros(0, bool), none, none)


def widened(state: HoldState, size: int) -> HoldState:
    """Return the state with more series, which do not hold yet."""
    more = size - len(state.since)
    if not more:
        return state
    return HoldState(
        np.concatenate((state.since, np.full(more, -1))),
        np.concatenate((state.reported, np.zeros(more, bool))),
        np.concatenate((state.last, np.full(more, -NEVER_NS))),
        np.concatenate((state.step, np.zeros(more, np.int64))),
    )


def only(state: HoldState, kept: NDArray[np.bool_] | Longs) -> HoldState:
    """Return the state of some of the series."""
    return HoldState(state.since[kept], state.reported[kept], state.last[kept], state.step[kept])
