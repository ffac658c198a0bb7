"""Ticks of one sampler as a matrix, and how they become tables with canonical names.

Names, scales and counters are looked up once per layout. A batch is then a few operations on
the whole matrix: the same that `Normaliser` does to tables of any shape, at a tenth of its cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.model.frame import ENTITY, T_S, Frame
from steward.model.layout import Layout
from steward.model.metric import Alias, Metric, MetricKind
from steward.model.metrics import aliases_from

__all__ = ["BatchTranslator", "TickBatch"]

Floats = NDArray[np.float64]
Known = Mapping[str, tuple[Metric, Alias]]


class TickBatch:
    """Some ticks of one layout: a matrix that is filled row by row."""

    def __init__(self, layout: Layout, *, ticks: int) -> None:
        self.layout = layout
        self.count = 0
        self._t_s = np.empty(ticks)
        self._rows = np.empty((ticks, layout.width))

    @property
    def is_full(self) -> bool:
        return self.count == len(self._t_s)

    @property
    def size(self) -> int:
        return self.rows.size  # room that was never written to takes no memory

    @property
    def t_s(self) -> Floats:
        return self._t_s[: self.count]

    @property
    def rows(self) -> Floats:
        return self._rows[: self.count]

    def keep(self, t_s: float, row: Floats) -> None:
        """Take one tick."""
        self._t_s[self.count] = t_s
        self._rows[self.count] = row
        self.count += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """Entities with the same layout: where each begins, and which places make each column."""

    entities: pl.Series
    starts: tuple[int, ...]
    width: int
    columns: Mapping[str, tuple[int, ...]]  # the first place with a value counts


class BatchTranslator:
    """Turns batches of one vocabulary into tables; remembers the last reading of counters."""

    def __init__(self, vocabulary: str, *, gap_after_s: float = 120.0) -> None:
        self._known = aliases_from(vocabulary)
        self._gap_after_s = gap_after_s
        self._layout = Layout(blocks=())
        self._tables: tuple[_Table, ...] = ()
        self._scale = np.empty(0)
        self._counters = np.empty(0, dtype=np.intp)
        self._before: tuple[float, Floats] = (float("nan"), np.empty(0))
        self.unknown: frozenset[str] = frozenset()  # unknown names of the layout

    def frames(self, batch: TickBatch) -> list[Frame]:
        """Return a table per set of columns, with canonical names, base units and rates."""
        if not batch.count:
            return []
        if batch.layout is not self._layout:
            self._learn(batch.layout)
        values = batch.rows * self._scale
        self._rate(values, batch.t_s)
        values[~np.isfinite(values)] = np.nan
        return [_frame(table, batch.t_s, values) for table in self._tables]

    def _rate(self, values: Floats, t_s: Floats) -> None:
        """Replace counters by their growth per second. One that fell was reset: unknown."""
        at = self._counters
        before_s, before = self._before
        readings = np.vstack([before[None, at], values[:, at]])
        self._before = (float(t_s[-1]), values[-1].copy())
        took_s = np.diff(t_s, prepend=before_s)[:, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            grown = np.diff(readings, axis=0)
            usable = (grown >= 0) & (took_s > 0) & (took_s <= self._gap_after_s)
            values[:, at] = np.where(usable, grown / took_s, np.nan)

    def _learn(self, layout: Layout) -> None:
        """Look up all names, and carry over what was read of entities that are still there."""
        names = [name for block in layout.blocks for name in block.names]
        found = [self._known.get(name) for name in names]
        self.unknown = frozenset(n for n, f in zip(names, found, strict=True) if f is None)
        self._scale = np.array([each[1].scale if each else np.nan for each in found])
        grows = [each is not None and _is_counter(each[0]) for each in found]
        self._counters = np.flatnonzero(grows)
        self._before = (self._before[0], self._carried(layout))
        self._layout = layout
        self._tables = _tables(layout, self._known)

    def _carried(self, layout: Layout) -> Floats:
        old, start = {}, 0
        for block in self._layout.blocks:
            old[block] = self._before[1][start : start + len(block.names)]
            start += len(block.names)
        parts = [old.get(block, np.full(len(block.names), np.nan)) for block in layout.blocks]
        return np.concatenate(parts) if parts else np.empty(0)


def _is_counter(metric: Metric) -> bool:
    return metric.kind is MetricKind.COUNTER and bool(metric.rate)


def _tables(layout: Layout, known: Known) -> tuple[_Table, ...]:
    places: dict[tuple[str, ...], list[tuple[str, int]]] = {}
    start = 0
    for block in layout.blocks:
        places.setdefault(block.names, []).append((block.entity, start))
        start += len(block.names)
    return tuple(
        _Table(
            entities=pl.Series(ENTITY, [entity for entity, _ in at], dtype=pl.String),
            starts=tuple(begin for _, begin in at),
            width=len(names),
            columns=_columns(names, known),
        )
        for names, at in places.items()
        if any(name in known for name in names)
    )


def _columns(names: tuple[str, ...], known: Known) -> dict[str, tuple[int, ...]]:
    """Return which places make each column. A source's own rate goes before ours."""
    given: dict[str, list[int]] = {}
    grown: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        if name in known:
            metric = known[name][0]
            counter = _is_counter(metric)
            kind = grown if counter else given
            kind.setdefault(metric.rate if counter else metric.name, []).append(place)
    every = dict.fromkeys([*given, *grown])
    return {name: (*given.get(name, ()), *grown.get(name, ())) for name in every}


def _frame(table: _Table, t_s: Floats, values: Floats) -> Frame:
    ticks, entities = len(t_s), len(table.starts)
    rows = np.concatenate([values[:, begin : begin + table.width] for begin in table.starts])
    columns = {}
    for name, places in table.columns.items():
        column = rows[:, places[0]]
        for other in places[1:]:
            column = np.where(np.isnan(column), rows[:, other], column)
        columns[name] = np.ascontiguousarray(column)
    owners = table.entities.gather(np.repeat(np.arange(entities, dtype=np.uint32), ticks))
    return pl.DataFrame({T_S: np.tile(t_s, entities), ENTITY: owners, **columns}, nan_to_null=True)
