"""Series and samples of metric terms: each sample is stored once for all terms of an engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.metric.column_samples import ColumnSamples
from steward.decide.rules.metric.kernels import NEVER_NS, Floats, Longs, Points, SeriesSamples
from steward.decide.rules.metric.layout import lay_out
from steward.decide.rules.metric.lookups import PHASE_COLUMN, FoundRows, SelectorColumn
from steward.decide.rules.metric.series_index import SeriesIndex
from steward.decide.rules.metric.sorted_frame import KeyIndex, SortedFrame
from steward.decide.rules.promql.evaluator import LOOKBACK_NS
from steward.decide.rules.promql.expression import Selector
from steward.decide.rules.promql.metric_columns import PHASE

__all__ = ["SampleBuffer", "TermSamples", "WatchCounts"]

Bools = NDArray[np.bool_]
_KEPT_SHARE = 0.9  # of the series limit, kept after an eviction
_AWAY_NS = 3600 * 10**9  # disconnected agents send buffered samples later
_SWEEP_NS = 120 * 10**9  # interval between removals of ended series
_NEVER = np.iinfo(np.int64).min
_MOST_POINTS = 100_000  # evaluation times cached for other terms
_NO_VALUES = np.zeros(0)


@dataclass(slots=True, kw_only=True)
class WatchCounts:
    """Samples that a term could not use."""

    late: int = 0  # samples not newer than the last of their series
    untimed: int = 0  # rows without a usable time or entity
    evicted: int = 0  # series evicted beyond the limit
    failed: int = 0  # failed evaluations; `problem` is the last error
    problem: str = ""


class _Reader(Protocol):
    """A reader of the buffer: the evaluation of one term."""

    @property
    def gap_ns(self) -> int:
        """The gap between samples after which a series starts anew."""
        ...

    @property
    def read_ns(self) -> Longs:
        """Until when each series was evaluated; it may be shorter than the list of series."""
        ...

    def forget(self, kept: Bools) -> None:
        """Drop the state of all other series."""
        ...


class SampleBuffer:
    """The series and samples of all terms that share it. Each frame is stored once."""

    def __init__(self, *, most_series: int, by_job: bool) -> None:
        self._most_series = most_series
        self._by_job = by_job  # whether series differ by the job that held the entity
        self.known = SeriesIndex()
        self.columns_kept: dict[str, ColumnSamples] = {}
        self.present: frozenset[str] = frozenset()  # columns of the last frame that are kept
        self.late: dict[str, int] = {}  # of the last frame, by column
        self._terms: list[TermSamples] = []
        self._users_of: dict[str, list[TermSamples]] = {}  # by column
        self._rows: SortedFrame | None = None  # the last frame
        self._numbers = np.zeros(0, np.int64)  # of series, by key of the last frame
        self._points: dict[tuple[str, ...], Points] = {}  # of the last frame, by columns
        self._times: dict[tuple[str, ...], Longs] = {}  # the same, each time once
        self._found: dict[tuple[bytes, bytes], FoundRows] = {}  # since the last frame
        self._clock_ns = -NEVER_NS
        self._swept_ns = -NEVER_NS
        self._own = np.zeros(0, np.int64)  # by number in `_key_index`; -1: not known yet
        self._key_index = KeyIndex()

    def join(self, term: TermSamples) -> None:
        """Keep what a term needs from now on."""
        self._terms.append(term)
        self._users_of.clear()
        for name in term.columns:
            self._column(name)

    def _column(self, name: str) -> ColumnSamples:
        """Return where samples of a column are kept, which is as far back as any term looks."""
        kept = self.columns_kept.setdefault(name, ColumnSamples())
        kept.reach_ns = max(each.reach_ns(name) for each in self._users(name))
        return kept

    def _users(self, name: str) -> list[TermSamples]:
        if name not in self._users_of:
            self._users_of[name] = [each for each in self._terms if each.uses(name)]
        return self._users_of[name]

    def add(self, rows: SortedFrame) -> None:
        """Store a frame, unless it was stored for another term."""
        if rows is self._rows:
            return
        self._forget()
        self._clock_ns = max(self._clock_ns, rows.clock_ns)
        self._rows, self._found, self.late = rows, {}, {}
        self._points, self._times = {}, {}
        self.present = frozenset(name for name in rows.metrics if self._users(name))
        if not self.present:
            return
        self._numbers = self._own_numbers(rows, _any_present(rows, self.present))
        for name in self.present:
            self._column(name)
        for name, kept in self.columns_kept.items():
            if name in self.present:
                values, present = rows.column(name)
                new = self._laid_out(rows, present, values)
                self.late[name] = kept.add(new, self._read_ns(name))
            kept.widen(len(self.known))

    def points(self, rows: SortedFrame, names: tuple[str, ...]) -> Points:
        """Return the times of the rows of the last frame that have some of these columns."""
        found = self._points.get(names)
        if found is None:
            laid = self._laid_out(rows, _any_present(rows, names), _NO_VALUES)
            found = self._points[names] = Points(laid.off, laid.t)
        return found

    def times(self, rows: SortedFrame, names: tuple[str, ...]) -> Longs:
        """Return the times of `points`, each once."""
        if names not in self._times:
            t_ns = rows.t_ns[_any_present(rows, names)]
            same = len(t_ns) > 0 and bool((t_ns == t_ns[0]).all())  # as in most frames
            self._times[names] = t_ns[:1] if same else np.unique(t_ns)
        return self._times[names]

    def found_at(self, offsets: bytes, times: Longs) -> FoundRows:
        """Return the cache of lookups at these times since the last frame."""
        if len(times) > _MOST_POINTS:
            return FoundRows()
        return self._found.setdefault((offsets, times.tobytes()), FoundRows())

    def nodes(self, names: Iterable[str], since_ns: int) -> frozenset[str]:
        """Return the nodes of which there was a sample of some of these columns since then."""
        kept = [self.columns_kept[name] for name in names]
        rows = np.flatnonzero(self._newest(kept) >= since_ns).tolist()
        named = {dict(self.known.labels[row]).get("node", "") for row in rows}
        return frozenset(named - {""})

    def _read_ns(self, name: str) -> Longs:
        """Return until when each series was evaluated by all terms that use a column."""
        found = np.full(len(self.known), NEVER_NS)
        for each in self._users(name):
            read = each.reader.read_ns
            np.minimum(found[: len(read)], read, out=found[: len(read)])
            found[len(read) :] = _NEVER // 2
        return found

    def _own_numbers(self, rows: SortedFrame, present: Bools) -> Longs:
        """Return our numbers of the keys; keys with values may be new."""
        if rows.key_index is not self._key_index:
            self._key_index, self._own = rows.key_index, np.zeros(0, np.int64)
            self.known.use(rows.key_index.label_index)
        more = len(rows.key_index) - len(self._own)
        if more:
            self._own = np.append(self._own, np.full(more, -1))
        strange = np.flatnonzero(self._own[rows.numbers] < 0)
        some = np.append(0, np.cumsum(present))[rows.off]
        for at in strange[some[strange + 1] > some[strange]].tolist():
            key = rows.key_index.keys[rows.numbers[at]]
            mine = self.known.number(key if self._by_job else (key[0], ""))
            self._own[rows.numbers[at]] = mine
        return self._own[rows.numbers]

    def _laid_out(self, rows: SortedFrame, present: Bools, values: Floats) -> SeriesSamples:
        taken = SeriesSamples(rows.off, rows.t_ns, values)
        return SeriesSamples(*lay_out(taken, present, self._numbers, len(self.known)))

    def _forget(self) -> None:
        """Drop series out of reach of all terms, and evict beyond the limit.

        Eviction takes those without samples for longest, and counts them.
        """
        gap_ns = max(each.reader.gap_ns for each in self._terms)
        if len(self.known) > self._most_series:
            newest = self._newest(self.columns_kept.values())
            room = max(1, int(self._most_series * _KEPT_SHARE))
            kept = np.zeros(len(self.known), bool)
            kept[np.argsort(newest, kind="stable")[-room:]] = True
            self._only(kept, evicted=int((~kept).sum()))
        elif gap_ns < NEVER_NS and self._clock_ns - self._swept_ns > _SWEEP_NS:
            self._swept_ns = self._clock_ns
            oldest_ns = self._clock_ns - max(self._reach_ns() + gap_ns, _AWAY_NS)
            self._only(self._newest(self.columns_kept.values()) >= oldest_ns)

    def _newest(self, columns: Iterable[ColumnSamples]) -> Longs:
        newest = np.full(len(self.known), _NEVER)
        for each in columns:
            off, t = each.samples.off, each.samples.t
            some = np.flatnonzero(np.diff(off) > 0)
            newest[some] = np.maximum(newest[some], t[off[some + 1] - 1])
        return newest

    def _reach_ns(self) -> int:
        """Return the age of the oldest sample that an evaluation can use."""
        reaches = [each.reach_ns for each in self.columns_kept.values()]
        return LOOKBACK_NS + max(reaches, default=0)

    def _only(self, kept: Bools, *, evicted: int = 0) -> None:
        if kept.all():
            return
        self.known.only(kept)
        anew = np.where(kept, np.cumsum(kept) - 1, -1)
        self._own = np.append(anew, -1)[self._own]
        for each in self.columns_kept.values():
            each.only(kept)
        for term in self._terms:
            term.forget(kept, evicted=evicted)


class TermSamples:
    """View of one term on a buffer: its own, or the one shared by all terms of an engine."""

    def __init__(
        self,
        wanted: Mapping[Selector, SelectorColumn],
        *,
        most_series: int,
        by_job: bool,
        required: frozenset[str] = frozenset(),
    ) -> None:
        self.wanted = wanted
        self._required = required  # columns without which the term has no value
        self.most_series = most_series
        self.counts = WatchCounts()
        self.reader: _Reader
        self._by_job = by_job
        names = {each.column.name for each in wanted.values()}
        self._has_phases = PHASE in names
        self._names = frozenset(names)
        self.columns = tuple(sorted(names - {PHASE}))
        self._join(SampleBuffer(most_series=most_series, by_job=by_job))

    def share(self, keys: KeyIndex) -> None:
        """Use the buffer that belongs to these keys, with all other terms that do."""
        group = (self._by_job, self.most_series)
        if group not in keys.buffers:
            keys.buffers[group] = SampleBuffer(most_series=self.most_series, by_job=self._by_job)
        self._join(keys.buffers[group])

    def _join(self, buffer: SampleBuffer) -> None:
        self._buffer = buffer
        buffer.join(self)

    @property
    def known(self) -> SeriesIndex:
        """All series of the buffer; some may have none of this term's columns."""
        return self._buffer.known

    @property
    def columns_kept(self) -> Mapping[str, ColumnSamples]:
        """The samples of the buffer, by column."""
        return self._buffer.columns_kept

    @property
    def can_hold(self) -> bool:
        """Whether there are samples of all columns without which the term has no value."""
        kept = self._buffer.columns_kept
        return all(len(kept[name].samples.t) for name in self._required)

    def found_at(self, offsets: bytes, times: Longs) -> FoundRows:
        """Return the cache of lookups at these times since the last frame."""
        return self._buffer.found_at(offsets, times)

    def add(self, rows: SortedFrame) -> Points:
        """Store a frame; return the times of rows with columns of this term, by series."""
        names = self._store(rows)
        if not names:
            return Points(np.zeros(len(self.known) + 1, np.int64), np.zeros(0, np.int64))
        return self._buffer.points(rows, names)

    def add_and_list_times(self, rows: SortedFrame) -> Longs:
        """Store a frame; return the times of rows with columns of this term, each once."""
        names = self._store(rows)
        return self._buffer.times(rows, names) if names else np.zeros(0, np.int64)

    def _store(self, rows: SortedFrame) -> tuple[str, ...]:
        """Store a frame; return the columns of this term that it has."""
        buffer = self._buffer
        buffer.add(rows)
        self.counts.untimed += rows.untimed
        names = tuple([name for name in self.columns if name in buffer.present])
        if self._has_phases:
            names += tuple([each for each in sorted(buffer.present) if self._uses_phase(each)])
        self.counts.late += sum(buffer.late[name] for name in names)
        return names

    def in_frame(self, rows: SortedFrame) -> bool:
        """Return whether a frame may have samples for this term."""
        return self._has_phases or not self._names.isdisjoint(rows.metrics)

    def uses(self, name: str) -> bool:
        """Return whether some selector uses a column."""
        return name in self.columns or self._uses_phase(name)

    def _uses_phase(self, name: str) -> bool:
        return name.startswith(PHASE_COLUMN) and any(
            each.column.name == PHASE and each.selected.phase(name.removeprefix(PHASE_COLUMN))
            for each in self.wanted.values()
        )

    def reach_ns(self, column: str) -> int:
        """Return the longest lookback of the selectors of a column."""
        name = PHASE if column.startswith(PHASE_COLUMN) else column
        return max(
            selector.range_ns + selector.offset_ns
            for selector, each in self.wanted.items()
            if each.column.name == name
        )

    def nodes(self, since_ns: int) -> frozenset[str]:
        """Return the nodes of which this term had a sample since then."""
        return self._buffer.nodes(self.columns, since_ns)

    def forget(self, kept: Bools, *, evicted: int) -> None:
        """Drop the state of all other series."""
        self.counts.evicted += evicted
        for each in self.wanted.values():
            each.selected.only(kept)
        self.reader.forget(kept)


def _any_present(rows: SortedFrame, names: Iterable[str]) -> Bools:
    """Return which rows have a value in some of these columns."""
    first, *others = names
    present = rows.column(first)[1]
    for name in others:
        present = present | rows.column(name)[1]
    return present
