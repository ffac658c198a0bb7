"""Anomalies of many series at once: scores by moment, events, and the metrics at fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.learn.patterns.anomalies.measures import Horizons, series_scores
from steward.learn.patterns.anomalies.tail_share import damped, tail_scores
from steward.learn.patterns.series import EntitySeries

__all__ = ["Anomalies", "AnomalyEvent", "AnomalySearch", "Culprit", "find_anomalies"]

Array = NDArray[Any]
_MOST_CULPRITS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalySearch:
    """What counts as an anomaly. `most` keeps the strongest events of an entity only."""

    threshold: float = 3.3
    most: int | None = None
    apart: int = 100  # samples between two events
    culprit_score: float = 2.0
    horizons: Horizons = field(default_factory=Horizons)


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """A metric that was unusual during an event."""

    metric: str
    score: float
    value: float  # at its most unusual moment
    usual: float  # median of the moments before the event


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyEvent:
    """Moments close to one another that score above the threshold."""

    entity: str
    from_s: float
    to_s: float
    peak_s: float
    score: float
    culprits: tuple[Culprit, ...]  # the most unusual metric first


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomalies:
    """Scores of all moments of one entity, and its events by time."""

    entity: str
    t_s: Array
    scores: Array
    events: tuple[AnomalyEvent, ...]


def find_anomalies(
    series: EntitySeries,
    search: AnomalySearch | None = None,
    progress: Callable[[int], None] = lambda _metrics: None,
) -> Anomalies:
    """Return the anomalies of one entity, from all its metrics together.

    `progress` is called with the number of metrics that are scored.
    """
    search = search or AnomalySearch()
    by_metric = np.zeros(series.values.shape)
    for column in range(len(series.metrics)):
        by_metric[:, column] = series_scores(series.values[:, column], search.horizons)
        progress(column + 1)
    joint = _together(by_metric, search.horizons)
    scores = damped(joint, np.exp(-1.0 / search.apart))
    stretches = _stretches(scores, joint, search)
    events = [_event(series, scores, by_metric, rows, search) for rows in stretches]
    if search.most is not None and len(events) > search.most:
        kept = sorted(events, key=lambda event: (-event.score, event.from_s))[: search.most]
        events = sorted(kept, key=lambda event: event.from_s)
    return Anomalies(entity=series.entity, t_s=series.t_s, scores=scores, events=tuple(events))


def _together(by_metric: Array, horizons: Horizons) -> Array:
    """Return one score per moment.

    Simes' combination sees one metric far out, the mean many that are a little. Metrics depend on
    one another, so both are ranked among the moments before, and the more unusual one counts.
    """
    moments, metrics = by_metric.shape
    if metrics <= 1:
        return by_metric[:, 0] if metrics else np.zeros(moments)
    ordered = -np.sort(-by_metric, axis=1)
    simes = (ordered - np.log10(metrics / np.arange(1, metrics + 1))).max(axis=1)
    warm_up = horizons.warm_up(moments)
    ranked = []
    for combined in (np.maximum(simes, 0.0), by_metric.mean(axis=1)):
        combined[:warm_up] = np.nan  # nothing was scored then
        ranked.append(tail_scores(combined, horizons.history, warm_up))
    higher = np.max(ranked, axis=0) - np.log10(len(ranked))  # either may be high by chance
    return np.asarray(np.maximum(higher, 0.0), np.float64)


def _stretches(scores: Array, joint: Array, search: AnomalySearch) -> list[tuple[int, int]]:
    """Return first and last row of each event: it lasts while the undamped score is high."""
    starts = np.flatnonzero(scores >= search.threshold)
    if not len(starts):
        return []
    high = np.flatnonzero(joint >= search.threshold)
    cuts = np.flatnonzero(np.diff(starts) > search.apart) + 1
    found: list[tuple[int, int]] = []
    for rows in np.split(starts, cuts):
        following = high[high >= rows[-1]]
        pauses = np.flatnonzero(np.diff(following) > search.horizons.smooth)
        last = following[pauses[0]] if len(pauses) else following[-1]
        if not found or rows[0] > found[-1][1]:
            found.append((int(rows[0]), int(last)))
    return found


def _event(
    series: EntitySeries,
    scores: Array,
    by_metric: Array,
    rows: tuple[int, int],
    search: AnomalySearch,
) -> AnomalyEvent:
    first, last = rows
    peak = first + int(np.argmax(scores[first : last + 1]))
    near = slice(max(0, first - search.horizons.smooth), last + 1)
    worst = by_metric[near].max(axis=0)
    order = np.argsort(-worst, kind="stable")[:_MOST_CULPRITS]
    named = [int(each) for each in order if worst[each] >= search.culprit_score] or [int(order[0])]
    return AnomalyEvent(
        entity=series.entity,
        from_s=float(series.t_s[first]),
        to_s=float(series.t_s[last]),
        peak_s=float(series.t_s[peak]),
        score=float(scores[peak]),
        culprits=tuple(_culprit(series, by_metric, near, each, search) for each in named),
    )


def _culprit(
    series: EntitySeries, by_metric: Array, near: slice, column: int, search: AnomalySearch
) -> Culprit:
    at = near.start + int(np.argmax(by_metric[near, column]))
    before = series.values[max(0, near.start - search.horizons.long) : near.start, column]
    before = before[np.isfinite(before)]
    return Culprit(
        metric=series.metrics[column],
        score=float(by_metric[at, column]),
        value=float(series.values[at, column]),
        usual=float(np.median(before)) if len(before) else float("nan"),
    )
