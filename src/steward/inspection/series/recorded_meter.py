"""Meter of rule expressions over recorded telemetry."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.decide.rules.metric import MetricWatch, compile_metric
from steward.errors import StewardError
from steward.model.frame import ENTITY, T_S, Frame, empty_frame
from steward.model.metrics import METRICS
from steward.model.outcome import Interval
from steward.model.rules import MetricTerm
from steward.store.telemetry import Telemetry

__all__ = ["RecordedMeter"]

LEAD_S = 600.0  # read before the queried time: rates look back
FRESH_S = 300.0  # maximum age of samples for a condition
_KNOWN = frozenset(each.name for each in METRICS)


class RecordedMeter:
    """Evaluate expressions over the store. Bad ones and those without samples are unknown."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def mean(
        self, expr: str, about: Sequence[str], *, from_s: float, to_s: float
    ) -> Interval | None:
        """Return the mean over that time with its 95 % range."""
        try:
            watch = compile_metric(MetricTerm(expr=expr))
            frame = self._read(watch, about, from_s - LEAD_S, to_s)
            found = watch.values(frame).filter(pl.col(T_S).is_between(from_s, to_s))
        except StewardError:
            return None
        mine = found.filter(pl.col(ENTITY) == about[0]) if about else found
        values = (mine if mine.height else found).sort(T_S)["value"].to_numpy()
        return _mean(values) if len(values) else None

    def holds(self, expr: str, about: Sequence[str], *, t_s: float) -> bool | None:
        """Return whether a condition holds for one of these entities at that time."""
        try:
            watch = compile_metric(MetricTerm(expr=expr))
            frame = self._read(watch, about, t_s - FRESH_S, t_s)
        except StewardError:
            return None
        if not frame.height:
            return None
        watch.add(frame)
        watch.finish()
        return bool(watch.holding())

    def _read(self, watch: MetricWatch, about: Sequence[str], from_s: float, to_s: float) -> Frame:
        metrics = sorted(watch.metrics & _KNOWN)
        if not metrics:
            return empty_frame()
        frame = self._telemetry.read(
            entities=list(about), metrics=metrics, from_s=from_s, to_s=to_s
        )
        jobs = [each.removeprefix("job:") for each in about if each.startswith("job:")]
        return frame.with_columns(pl.lit(jobs[0]).alias("job_id")) if jobs else frame


def _mean(values: NDArray[np.float64]) -> Interval:
    """Return the mean; neighbours are correlated, which reduces the effective sample size."""
    mid, count = float(values.mean()), len(values)
    spread = float(values.std(ddof=1)) if count > 1 else 0.0
    if spread:
        alike = float(np.corrcoef(values[:-1], values[1:])[0, 1]) if _varies(values) else 0.0
        count_apart = max(1.0, count * (1 - min(alike, 0.99)) / (1 + max(alike, 0.0)))
        half = 1.96 * spread / sqrt(min(count, count_apart))
    else:
        half = 0.0
    return Interval(low=mid - half, mid=mid, high=mid + half)


def _varies(values: NDArray[np.float64]) -> bool:
    return len(values) > 2 and bool(values[:-1].std() > 0) and bool(values[1:].std() > 0)
