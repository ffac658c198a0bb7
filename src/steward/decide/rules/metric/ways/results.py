"""The series that an expression gave, each with a number and its state."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from steward.decide.rules.metric.kernels import Longs, Points
from steward.decide.rules.metric.promql.named import Labels, Names
from steward.decide.rules.metric.promql.vectors import Rows
from steward.decide.rules.metric.series import entity_named
from steward.decide.rules.metric.ways.way import Seen, no_stretches, only, widened

__all__ = ["Results"]


class Results:
    """Results by their labels, numbered from 0."""

    def __init__(self) -> None:
        self._number: dict[Labels, int] = {}
        self._labels: list[Labels] = []
        self._last: tuple[Names, Longs] = (Names(), np.zeros(0, np.int64))
        self.state = no_stretches()

    def whose(self, series: int, entities: Mapping[Labels, str]) -> tuple[str, Labels]:
        """Return the entity and the labels of a result."""
        labels = self._labels[series]
        return entities.get(labels) or entity_named(labels), labels

    def laid_out(self, found: Rows, times: Longs) -> Seen:
        """Give each result that was ever seen its row: those not found now do not hold."""
        rows = self._rows(found.labels)
        if len(self._labels) > len(self.state.since):
            self.state = widened(self.state, len(self._labels))
        values = np.full((len(self._labels), len(times)), np.nan)
        values[rows] = found.values
        off = np.arange(len(self._labels) + 1) * len(times)
        points = Points(off, np.tile(times, len(self._labels)))
        return Seen(points=points, values=values.ravel())

    def _rows(self, names: Names) -> Longs:
        if self._last[0] is not names:
            for labels in names:
                if labels not in self._number:
                    self._number[labels] = len(self._labels)
                    self._labels.append(labels)
            rows = np.array([self._number[labels] for labels in names], np.int64)
            self._last = names, rows
        return self._last[1]

    def forget(self, most: int) -> int:
        """Let go of what does not hold if there are too many; returns how many went."""
        if len(self._labels) <= most:
            return 0
        kept = np.flatnonzero(self.state.since >= 0)[-most:]
        gone = len(self._labels) - len(kept)
        self._only(kept)
        return gone

    def forget_others(self) -> None:
        """Let go of what does not hold and was not found by the last look: it has ended."""
        kept = self.state.since >= 0
        kept[self._last[1]] = True
        self._only(np.flatnonzero(kept))

    def _only(self, kept: Longs) -> None:
        self._labels = [self._labels[row] for row in kept.tolist()]
        self._number = {labels: row for row, labels in enumerate(self._labels)}
        self._last = Names(), np.zeros(0, np.int64)
        self.state = only(self.state, kept)
