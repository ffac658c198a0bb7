"""Two sample lookups: each entity at its own times, or all at the same times.

In most rules the value of one entity depends on nothing else: then the times of all entities are
concatenated into one long row, and everything is arithmetic on that row. Only conditions that
compare entities need them at the same times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

import numpy as np

from steward.decide.rules.metric.column_samples import ColumnSamples
from steward.decide.rules.metric.kernels import (
    Floats,
    Longs,
    Points,
    SeriesSamples,
    latest,
    over_range,
    repeated,
)
from steward.decide.rules.metric.series_index import SelectedSeries, SeriesIndex
from steward.decide.rules.promql.evaluator import LOOKBACK_NS
from steward.decide.rules.promql.expression import LabelMatcher, Selector
from steward.decide.rules.promql.functions import OVER_RANGE
from steward.decide.rules.promql.label_index import LabelColumn
from steward.decide.rules.promql.metric_columns import PHASE, MetricColumn
from steward.decide.rules.promql.vectors import LabelledRows

__all__ = ["PHASE_COLUMN", "AcrossEntitiesLookup", "FoundRows", "PerEntityLookup", "SelectorColumn"]

PHASE_COLUMN = "phase:"  # prefix of phase columns in frames
How = tuple[str, float]  # a function of a range and its parameter; "": the newest value
_EMPTY = np.zeros(0, np.int64)
# Of a counter only its rate is kept.
_OF_RATES = {"rate": "avg_over_time", "increase": "avg_over_time", "irate": "last_over_time"}


class SelectedPoints(NamedTuple):
    """Series of a column that a selector selects, all at the same times."""

    points: Points
    labels: LabelColumn


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoundRows:
    """What was looked up at some times since the last frame, by any term."""

    rows: dict[tuple[Selector, How], LabelledRows] = field(default_factory=dict)
    points: dict[tuple[str, str, tuple[LabelMatcher, ...]], SelectedPoints] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SelectorColumn:
    """A selector with its column, and the series that it selects."""

    column: MetricColumn
    selected: SelectedSeries


def _computed(
    samples: SeriesSamples, points: Points, selector: Selector, how: How, column: MetricColumn
) -> Floats:
    """Return a function of samples at points, in the unit of the expression."""
    function, parameter = how
    at = Points(points.off, points.t - selector.offset_ns) if selector.offset_ns else points
    if not function:
        return latest(samples, at, LOOKBACK_NS) / column.scale
    range_ns = selector.range_ns or LOOKBACK_NS
    plain = _OF_RATES.get(function, function) if column.rises else function
    op = OVER_RANGE["absent_over_time" if plain == "absent" else plain]
    found = over_range(samples, at, range_ns, op, parameter)
    if column.rises and function == "increase":
        found = found * (range_ns / 1e9)
    return found if _counts(function) else found / _power(function, column.scale)


def _counts(function: str) -> bool:
    return function in (
        "absent", "absent_over_time", "changes", "count_over_time", "present_over_time", "resets",
    )  # fmt: skip


def _power(function: str, scale: float) -> float:
    return scale * scale if function == "stdvar_over_time" else scale


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PerEntityLookup:
    """Look up each series at its own times, all in one row."""

    known: SeriesIndex
    wanted: Mapping[Selector, SelectorColumn]
    columns_kept: Mapping[str, ColumnSamples]
    points: Points
    found: FoundRows  # what was looked up before at these times, also by other terms

    @property
    def t_s(self) -> Floats:
        return self.points.t / 1e9

    @property
    def nameless(self) -> LabelColumn:
        return self.known.label_index.nameless

    def newest(self, selector: Selector) -> LabelledRows:
        return self.past(selector, "", 0.0)

    def past(self, selector: Selector, function: str, parameter: float) -> LabelledRows:
        what = selector, (function, parameter)
        if what not in self.found.rows:  # conditions and rules repeat selectors
            self.found.rows[what] = self._rows(*what)
        return self.found.rows[what]

    def _rows(self, selector: Selector, how: How) -> LabelledRows:
        wanted = self.wanted[selector]
        samples = self.columns_kept[wanted.column.name].samples
        values = _computed(samples, self.points, selector, how, wanted.column)
        meant = wanted.selected.mask(self.known)
        if not meant.all():
            values = np.where(np.repeat(meant, np.diff(self.points.off)), values, np.nan)
        return LabelledRows(labels=self.nameless, values=values[np.newaxis])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AcrossEntitiesLookup:
    """Look up all series at the same times, one row for each."""

    known: SeriesIndex
    wanted: Mapping[Selector, SelectorColumn]
    columns_kept: Mapping[str, ColumnSamples]
    times: Longs
    found: FoundRows  # what was looked up before at these times, also by other terms

    @property
    def t_s(self) -> Floats:
        return self.times / 1e9

    @property
    def nameless(self) -> LabelColumn:
        return self.known.label_index.nameless

    def newest(self, selector: Selector) -> LabelledRows:
        return self.past(selector, "", 0.0)

    def past(self, selector: Selector, function: str, parameter: float) -> LabelledRows:
        what = selector, (function, parameter)
        if what not in self.found.rows:
            self.found.rows[what] = self._rows(*what)
        return self.found.rows[what]

    def _rows(self, selector: Selector, how: How) -> LabelledRows:
        wanted = self.wanted[selector]
        if wanted.column.name != PHASE:
            return self._of(wanted.column.name, selector, how)
        names = [name.removeprefix(PHASE_COLUMN) for name in self._phases(wanted)]
        parts = [_of_phase(name, self._of(PHASE_COLUMN + name, selector, how)) for name in names]
        empty = np.zeros((0, len(self.times)))
        return LabelledRows(
            labels=reduce(
                LabelColumn.then, (part.labels for part in parts), self.known.names(_EMPTY)
            ),
            values=np.concatenate([empty, *(part.values for part in parts)]),
        )

    def _phases(self, wanted: SelectorColumn) -> list[str]:
        return [
            name
            for name in sorted(self.columns_kept)
            if name.startswith(PHASE_COLUMN)
            and wanted.selected.phase(name.removeprefix(PHASE_COLUMN))
        ]

    def _of(self, column: str, selector: Selector, how: How) -> LabelledRows:
        samples = self.columns_kept[column].samples
        points, labels = self._points(column, selector)
        values = _computed(samples, points, selector, how, self.wanted[selector].column)
        return LabelledRows(labels=labels, values=values.reshape(len(labels), len(self.times)))

    def _points(self, column: str, selector: Selector) -> SelectedPoints:
        """Return the points of a selector; the same for all of its ranges and functions."""
        what = column, selector.name, selector.matchers
        found = self.found.points.get(what)
        if found is None:
            selected = self.wanted[selector].selected.mask(self.known)
            meant = selected & (np.diff(self.columns_kept[column].samples.off) > 0)
            rows = np.flatnonzero(meant)
            off = np.append(0, np.cumsum(meant * len(self.times)))
            points = Points(off, repeated(self.times, len(rows)))
            found = SelectedPoints(points, self.known.names(rows))
            self.found.points[what] = found
        return found


def _of_phase(phase: str, rows: LabelledRows) -> LabelledRows:
    named = ("phase", phase)
    labels = rows.labels.made(named, lambda each: tuple(sorted((*each, named))))
    return LabelledRows(labels=labels, values=rows.values)
