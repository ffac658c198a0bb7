"""Result series of an expression, each with a number and its hold state."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from steward.decide.rules.metric.evaluation import EvaluatedPoints, no_series, only, widened
from steward.decide.rules.metric.kernels import Floats, Longs, Points, repeated
from steward.decide.rules.metric.series_index import entity_named
from steward.decide.rules.promql.label_index import LabelColumn, LabelIndex, Labels
from steward.decide.rules.promql.vectors import LabelledRows

__all__ = ["Results"]

_NONE = np.zeros(0, np.int64)


class Results:
    """Results by their labels, numbered from 0."""

    def __init__(self) -> None:
        self._labels: list[Labels] = []
        self._lexicon = LabelIndex()
        self._row_of = _NONE  # by the number that labels have in the index; -1: none
        self._last = _NONE  # rows of the last evaluation
        self.state = no_series()

    def identity(self, series: int, entities: Mapping[Labels, str]) -> tuple[str, Labels]:
        """Return the entity and the labels of a result."""
        labels = self._labels[series]
        return entities.get(labels) or entity_named(labels), labels

    def laid_out(self, found: LabelledRows, times: Longs) -> EvaluatedPoints:
        """Return values by result row: results that are absent now do not hold."""
        rows = self._rows(found.labels)
        if len(self._labels) > len(self.state.since):
            self.state = widened(self.state, len(self._labels))
        values = np.full((len(self._labels), len(times)), np.nan)
        values[rows] = found.values
        return self._evaluated(values, times)

    def none(self, times: Longs) -> EvaluatedPoints:
        """Return the values of an evaluation that has no result."""
        self._last = _NONE
        return self._evaluated(np.full((len(self._labels), len(times)), np.nan), times)

    def _evaluated(self, values: Floats, times: Longs) -> EvaluatedPoints:
        count = len(self._labels)
        points = Points(np.arange(count + 1) * len(times), repeated(times, count))
        return EvaluatedPoints(points=points, values=values.ravel())

    def _rows(self, names: LabelColumn) -> Longs:
        if names.label_index is not self._lexicon:
            self._lexicon = names.label_index
            self._number()
        more = len(self._lexicon.labels) - len(self._row_of)
        if more > 0:
            self._row_of = np.append(self._row_of, np.full(more, -1))
        rows = self._row_of[names.ids]
        if (rows < 0).any():
            for id_ in dict.fromkeys(names.ids[rows < 0].tolist()):
                self._row_of[id_] = len(self._labels)
                self._labels.append(self._lexicon.labels[id_])
            rows = self._row_of[names.ids]
        self._last = rows
        return rows

    def _number(self) -> None:
        ids = self._lexicon.names(self._labels).ids
        self._row_of = np.full(len(self._lexicon.labels), -1)
        self._row_of[ids] = np.arange(len(ids))

    def forget(self, most: int) -> int:
        """Drop results that do not hold if there are too many; return how many."""
        if len(self._labels) <= most:
            return 0
        kept = np.flatnonzero(self.state.since >= 0)[-most:]
        gone = len(self._labels) - len(kept)
        self._only(kept)
        return gone

    def forget_others(self) -> None:
        """Drop results that do not hold and were absent in the last evaluation."""
        kept = self.state.since >= 0
        kept[self._last] = True
        self._only(np.flatnonzero(kept))

    def _only(self, kept: Longs) -> None:
        self._labels = [self._labels[row] for row in kept.tolist()]
        self._number()
        self._last = _NONE
        self.state = only(self.state, kept)
