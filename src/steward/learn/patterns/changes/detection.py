"""Changes of one entity: when, in which metrics, from what to what; and its periods."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.errors import unknown_name
from steward.learn.patterns.changes.online import DETECTORS, online
from steward.learn.patterns.changes.periodicity import Periodicity, periodicity
from steward.learn.patterns.changes.segmentation import Segmentation, change_points
from steward.learn.patterns.series import EntitySeries

__all__ = ["METHODS", "Change", "MetricChange", "MetricPeriod", "find_changes", "find_periods"]

Array = NDArray[Any]
METHODS = ("pelt", *DETECTORS)
_MOST_METRICS = 10
_CLEAR_EFFECT = 0.5  # difference of medians in units of the spread around them


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricChange:
    """What a change did to one metric."""

    metric: str
    before: float  # medians of the stretches beside the change
    after: float
    effect: float  # their difference in units of the usual deviation within the stretches


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A moment after which an entity behaves differently."""

    entity: str
    t_s: float
    detected_s: float  # when an on-line method knew of it; of an off-line one, the same as t_s
    score: float  # how clear it is; above 1
    metrics: tuple[MetricChange, ...]  # the most affected first


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPeriod:
    """The period of one metric, in seconds, and the spans in which it is lost."""

    entity: str
    metric: str
    period_s: float
    strength: float
    lost: tuple[tuple[float, float], ...] = field(default=())


def find_changes(
    series: EntitySeries, *, method: str = "pelt", how: Segmentation | None = None
) -> tuple[Change, ...]:
    """Return the changes of all metrics of an entity together, by time."""
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    if method == "pelt":
        rows, scores = change_points(series.values, how)
        known = rows
    else:
        found = online(series.values, method)
        rows = np.array([max(0, row - each.ago) for row, each in found], np.int64)
        known = np.array([row for row, _ in found], np.int64)
        scores = np.array([each.score for _, each in found])
    edges = np.unique(np.concatenate(([0], rows, [len(series)]))).astype(np.int64)
    return tuple(
        Change(
            entity=series.entity,
            t_s=float(series.t_s[row]),
            detected_s=float(series.t_s[seen]),
            score=float(score),
            metrics=_effects(series, int(row), edges),
        )
        for row, seen, score in zip(rows, known, scores, strict=True)
    )


def find_periods(series: EntitySeries) -> tuple[MetricPeriod, ...]:
    """Return the metrics of an entity that repeat themselves, the clearest first."""
    found = []
    for column, metric in enumerate(series.metrics):
        repeats = periodicity(series.values[:, column])
        if repeats is not None:
            found.append(_period(series, metric, repeats))
    return tuple(sorted(found, key=lambda each: (-each.strength, each.metric)))


def _period(series: EntitySeries, metric: str, found: Periodicity) -> MetricPeriod:
    times = series.t_s
    return MetricPeriod(
        entity=series.entity,
        metric=metric,
        period_s=found.period_rows * series.step_s,
        strength=found.strength,
        lost=tuple(
            (float(times[each.from_row]), float(times[each.to_row])) for each in found.losses
        ),
    )


def _effects(series: EntitySeries, row: int, edges: Array) -> tuple[MetricChange, ...]:
    place = int(np.searchsorted(edges, row))
    begin = int(edges[max(0, place - 1)])
    end = int(edges[min(place + 1, len(edges) - 1)])
    found = [
        _effect(metric, series.values[begin:row, column], series.values[row:end, column])
        for column, metric in enumerate(series.metrics)
    ]
    known = [each for each in found if each is not None and abs(each.effect) > 0.0]
    ordered = sorted(known, key=lambda each: (-abs(each.effect), each.metric))[:_MOST_METRICS]
    clear = [each for each in ordered if abs(each.effect) >= _CLEAR_EFFECT]
    return tuple(clear or ordered[:1])


def _effect(metric: str, before: Array, after: Array) -> MetricChange | None:
    before, after = before[np.isfinite(before)], after[np.isfinite(after)]
    if not len(before) or not len(after):
        return None
    one, other = float(np.median(before)), float(np.median(after))
    rest = np.concatenate((before - one, after - other))
    spread = float(np.sqrt(np.mean(np.square(rest / _size(before, after))))) * _size(before, after)
    least = 1e-3 * max(abs(one), abs(other), np.finfo(float).tiny)
    effect = (other - one) / max(spread, least)
    return MetricChange(metric=metric, before=one, after=other, effect=effect)


def _size(before: Array, after: Array) -> float:
    return max(float(np.abs(before).max()), float(np.abs(after).max()), 1.0)
