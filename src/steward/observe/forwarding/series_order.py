"""Brings the samples of each series into the order of their times, as receivers want them.

Prometheus refuses a whole request for one sample that is older than another of its series. Two
sources may report the same number, and one that hung brings its samples later than the other.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from steward.observe.translate.outgoing import MetricSeries

__all__ = ["SeriesOrder", "by_age"]

MOST_SERIES = 200_000
SILENT_MS = 3_600_000  # series that were silent for so long are forgotten when room is needed
OLD_S = 1800.0
_NEVER = -(2**62)


class SeriesOrder:
    """The newest time sent of each series. What is not newer is left out, and counted."""

    def __init__(self, *, most_series: int = MOST_SERIES) -> None:
        self.late = 0
        self._most = most_series
        self._newest_ms: dict[tuple[str, str], int] = {}

    def sort(self, series: Iterable[MetricSeries]) -> list[MetricSeries]:
        """Return one series per entity and name, oldest sample first, all newer than before."""
        found: dict[tuple[str, str], MetricSeries] = {}
        for each in series:
            key = (each.entity, each.name)
            found[key] = _joined(found[key], each) if key in found else each
        sent = [self._newer(key, each) for key, each in found.items()]
        self._make_room()
        return [each for each in sent if len(each.values)]

    def _newer(self, key: tuple[str, str], series: MetricSeries) -> MetricSeries:
        t_ms = np.round(series.t_s * 1e3).astype(np.int64)
        newest_ms = self._newest_ms.get(key, _NEVER)
        if t_ms[0] > newest_ms and (len(t_ms) == 1 or (t_ms[1:] > t_ms[:-1]).all()):
            self._newest_ms[key] = int(t_ms[-1])
            return series
        order = np.argsort(t_ms, kind="stable")
        t_ms = t_ms[order]
        kept = t_ms > newest_ms
        kept[:-1] &= t_ms[1:] > t_ms[:-1]  # of equal times, the last
        order = order[kept]
        self.late += len(t_ms) - len(order)
        if len(order):
            self._newest_ms[key] = int(t_ms[kept][-1])
        return _part(series, order)

    def _make_room(self) -> None:
        if len(self._newest_ms) <= self._most:
            return
        since_ms = max(self._newest_ms.values()) - SILENT_MS
        self._newest_ms = {key: t for key, t in self._newest_ms.items() if t >= since_ms}
        self._most = max(self._most, 2 * len(self._newest_ms))


def by_age(series: Iterable[MetricSeries]) -> tuple[list[MetricSeries], list[MetricSeries]]:
    """Set apart what is far behind the newest: a receiver may refuse it, and all in its request.

    What is old comes first. So an agent that was away for hours costs the others nothing.
    """
    all_ = list(series)
    since_s = max((float(each.t_s[-1]) for each in all_), default=0.0) - OLD_S
    old, fresh = [], []
    for each in all_:
        if each.t_s[0] >= since_s:
            fresh.append(each)
            continue
        behind = int(np.searchsorted(each.t_s, since_s))
        old.append(_part(each, slice(0, behind)))
        if behind < len(each.t_s):
            fresh.append(_part(each, slice(behind, None)))
    return old, fresh


def _joined(a: MetricSeries, b: MetricSeries) -> MetricSeries:
    return MetricSeries(
        entity=a.entity,
        name=a.name,
        t_s=np.concatenate((a.t_s, b.t_s)),
        values=np.concatenate((a.values, b.values)),
    )


def _part(series: MetricSeries, which: np.ndarray | slice) -> MetricSeries:
    return MetricSeries(
        entity=series.entity,
        name=series.name,
        t_s=series.t_s[which],
        values=series.values[which],
    )
