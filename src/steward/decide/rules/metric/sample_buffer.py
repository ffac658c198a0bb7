"""Takes what a term needs out of frames, and forgets the entities that were silent for longest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.metric.column_samples import ColumnSamples
from steward.decide.rules.metric.kernels import NEVER_NS, Floats, Longs, Points, SeriesSamples
from steward.decide.rules.metric.layout import lay_out
from steward.decide.rules.metric.lookups import PHASE_COLUMN, SelectorColumn
from steward.decide.rules.metric.series_index import SeriesIndex
from steward.decide.rules.metric.sorted_frame import KeyIndex, SortedFrame
from steward.decide.rules.promql.evaluator import LOOKBACK_NS
from steward.decide.rules.promql.expression import Selector
from steward.decide.rules.promql.metric_columns import PHASE

__all__ = ["SampleBuffer", "WatchCounts"]

Bools = NDArray[np.bool_]
_KEPT_SHARE = 0.9  # of the most series, after some had to be forgotten
_AWAY_NS = 3600 * 10**9  # agents that were cut off send what they kept: it goes on from there
_SWEEP_NS = 120 * 10**9  # how often series that ended are looked for
_NEVER = np.iinfo(np.int64).min
_NO_VALUES = np.zeros(0)


@dataclass(slots=True, kw_only=True)
class WatchCounts:
    """What of the telemetry a term could not use."""

    late: int = 0  # samples not newer than the last of their series
    untimed: int = 0  # rows without a usable time or entity
    evicted: int = 0  # series forgotten since there were too many
    failed: int = 0  # looks that came to nothing, as `problem` says
    problem: str = ""


@dataclass(slots=True, kw_only=True)
class SampleBuffer:
    """The series of one term and their samples."""

    wanted: Mapping[Selector, SelectorColumn]
    most_series: int
    by_job: bool  # whether who held an entity tells series apart
    counts: WatchCounts = field(default_factory=WatchCounts)
    known: SeriesIndex = field(default_factory=SeriesIndex)
    columns_kept: dict[str, ColumnSamples] = field(default_factory=dict)
    _clock_ns: int = -NEVER_NS
    _swept_ns: int = -NEVER_NS
    _own: Longs = field(default_factory=lambda: np.zeros(0, np.int64))  # -1: not known yet
    _key_index: KeyIndex = field(default_factory=KeyIndex)  # of which `_own` has our numbers

    def __post_init__(self) -> None:
        for each in self.wanted.values():
            if each.column.name != PHASE:
                self._store(each.column.name)

    def _store(self, column: str) -> ColumnSamples:
        """Return where samples of a column are kept, which is as far back as anything looks."""
        name = PHASE if column.startswith(PHASE_COLUMN) else column
        reaches = [
            selector.range_ns + selector.offset_ns
            for selector, each in self.wanted.items()
            if each.column.name == name
        ]
        return self.columns_kept.setdefault(column, ColumnSamples(max(reaches)))

    def add(self, rows: SortedFrame, looked_ns: Longs) -> Points:
        """Take the samples; returns the times of rows that had any, by series.

        `looked_ns` says until when each known series was looked at: what is far older may go.
        """
        self.counts.untimed += rows.untimed
        names = [name for name in rows.metrics if self._wants(name)]
        if not names:
            return Points(np.zeros(len(self.known) + 1, np.int64), np.zeros(0, np.int64))
        there = rows.column(names[0])[1]
        for name in names[1:]:
            there = there | rows.column(name)[1]
        own = self._own_numbers(rows, there)
        for name in names:
            self._store(name)
        looked = np.full(len(self.known), _NEVER // 2)
        looked[: len(looked_ns)] = looked_ns
        for name, store in self.columns_kept.items():
            if name in names:
                values, some = rows.column(name)
                self.counts.late += store.add(self._laid_out(rows, some, own, values), looked)
            store.widen(len(self.known))
        laid = self._laid_out(rows, there, own, _NO_VALUES)
        return Points(laid.off, laid.t)

    def _wants(self, name: str) -> bool:
        return name in self.columns_kept or (
            name.startswith(PHASE_COLUMN)
            and any(
                each.column.name == PHASE and each.selected.phase(name.removeprefix(PHASE_COLUMN))
                for each in self.wanted.values()
            )
        )

    def _own_numbers(self, rows: SortedFrame, there: Bools) -> Longs:
        """Return our numbers of the keys; those that have something may be new."""
        if rows.key_index is not self._key_index:
            self._key_index, self._own = rows.key_index, np.zeros(0, np.int64)
            self.known.use(rows.key_index.label_index)
        more = len(rows.key_index) - len(self._own)
        if more:
            self._own = np.append(self._own, np.full(more, -1))
        strange = np.flatnonzero(self._own[rows.numbers] < 0)
        some = np.append(0, np.cumsum(there))[rows.off]
        for at in strange[some[strange + 1] > some[strange]].tolist():
            key = rows.keys[at]
            mine = self.known.number(key if self.by_job else (key[0], ""))
            self._own[rows.numbers[at]] = mine
        return self._own[rows.numbers]

    def _laid_out(
        self, rows: SortedFrame, there: Bools, own: Longs, values: Floats
    ) -> SeriesSamples:
        taken = SeriesSamples(rows.off, rows.t_ns, values)
        return SeriesSamples(*lay_out(taken, there, own, len(self.known)))

    def forget(self, clock_ns: int, gap_ns: int) -> Bools | None:
        """Let go of series that no look can reach any more, and of some if there are too many.

        Too many: then those silent for longest go, and are counted. Returns which are kept.
        """
        before_ns, self._clock_ns = self._clock_ns, clock_ns  # until then all was told
        if len(self.known) > self.most_series:
            newest = self._newest()
            room = max(1, int(self.most_series * _KEPT_SHARE))
            kept = np.zeros(len(self.known), bool)
            kept[np.argsort(newest, kind="stable")[-room:]] = True
            self.counts.evicted += int((~kept).sum())
        elif gap_ns < NEVER_NS and before_ns - self._swept_ns > _SWEEP_NS:
            first = self._swept_ns == -NEVER_NS
            self._swept_ns = before_ns - self._ahead_ns() if first else before_ns
            kept = self._newest() >= before_ns - max(self._reach_ns() + gap_ns, _AWAY_NS)
        else:
            return None
        return self._only(kept) if not kept.all() else None

    def _ahead_ns(self) -> int:
        """Return how much earlier its second sweep is, so that terms do not all sweep at once."""
        return crc32(repr([*self.wanted]).encode()) * _SWEEP_NS >> 32

    def nodes(self, since_ns: int) -> frozenset[str]:
        """Return the nodes of which there was a sample since then."""
        rows = np.flatnonzero(self._newest() >= since_ns).tolist()
        named = {dict(self.known.labels[row]).get("node", "") for row in rows}
        return frozenset(named - {""})

    def _newest(self) -> Longs:
        newest = np.full(len(self.known), _NEVER)
        for store in self.columns_kept.values():
            some = np.diff(store.samples.off) > 0
            ends = store.samples.off[1:][some] - 1
            newest[some] = np.maximum(newest[some], store.samples.t[ends])
        return newest

    def _reach_ns(self) -> int:
        """Return how long ago a sample can be that a look still finds."""
        return LOOKBACK_NS + max(each.range_ns + each.offset_ns for each in self.wanted)

    def _only(self, kept: Bools) -> Bools:
        self.known.only(kept)
        anew = np.where(kept, np.cumsum(kept) - 1, -1)
        self._own = np.append(anew, -1)[self._own]
        for store in self.columns_kept.values():
            store.only(kept)
        for each in self.wanted.values():
            each.selected.only(kept)
        return kept
