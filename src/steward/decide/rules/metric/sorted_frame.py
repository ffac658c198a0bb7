"""A frame sorted into series, once for all terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.decide.rules.metric.kernels import Floats, Longs
from steward.decide.rules.promql.label_index import LabelIndex
from steward.model.frame import ENTITY, T_S, Frame

if TYPE_CHECKING:
    from steward.decide.rules.metric.sample_buffer import SampleBuffer

__all__ = ["JOB", "KeyIndex", "SortedFrame", "nanoseconds", "sort_frame"]

JOB = "job_id"  # the column of the job that held the entity
Bools = NDArray[np.bool_]
Key = tuple[str, str]  # an entity, and the job that held it
_MOST_GONE = 20_000  # stale keys of ended jobs beyond which the index is rebuilt
_SECONDS = (-9.2e9, 9.2e9)  # what fits into 64 bits of nanoseconds


class KeyIndex:
    """A number for each known key, so that terms need not compare texts again.

    The terms of one engine share it, and with it the buffers of their samples.
    """

    def __init__(self, buffers: dict[tuple[bool, int], SampleBuffer] | None = None) -> None:
        self.buffers = {} if buffers is None else buffers
        self.keys: list[Key] = []  # by number
        self._number: dict[Key, int] = {}
        self.label_index = LabelIndex()  # the same for labels

    def __len__(self) -> int:
        return len(self.keys)

    def of(self, keys: Sequence[Key]) -> Longs:
        """Return the numbers of keys; new ones get the next."""
        number = self._number
        found = np.array([number.get(key, -1) for key in keys], np.int64)
        for at in np.flatnonzero(found < 0).tolist():  # few: jobs that just began
            found[at] = number.setdefault(keys[at], len(self.keys))
            if found[at] == len(self.keys):
                self.keys.append(keys[at])
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SortedFrame:
    """Rows by key and time. A key is an entity, or an entity with the job that held it."""

    numbers: Longs  # of the keys
    key_index: KeyIndex
    off: Longs  # rows of key `i` are `[off[i]:off[i + 1]]`
    t_ns: Longs
    clock_ns: int  # the time of most entities: one clock far ahead does not count
    metrics: tuple[str, ...]  # columns that have values
    untimed: int  # rows without a usable time or entity, which are left out
    _frame: Frame
    _present: Frame  # where each metric is not null
    _order: Longs | None  # of the frame's rows; None: as they are
    _columns: dict[str, tuple[Floats, Bools]] = field(default_factory=dict)

    def column(self, name: str) -> tuple[Floats, Bools]:
        """Return the values of a metric and where there are any; NaN is one: "none from now"."""
        found = self._columns.get(name)
        if found is None:
            values, present = self._frame[name].to_numpy(), self._present[name].to_numpy()
            if self._order is not None:
                values, present = values[self._order], present[self._order]
            found = self._columns[name] = (values, present)
        return found


def nanoseconds(t_s: Floats) -> Longs:
    """Return whole microseconds, in nanoseconds: a float has no more digits today."""
    return np.round(t_s * 1e6).astype(np.int64) * 1000


def sort_frame(frame: Frame, before: KeyIndex | None = None) -> SortedFrame:
    """Sort a frame by entity and time; rows that have neither are counted.

    `before` is the key_index of the frame before; an index that has grown too long is replaced.
    """
    good = _usable(frame)
    t_ns = nanoseconds(good[T_S].to_numpy())
    key_index = KeyIndex() if before is None else before
    if len(key_index) > 2 * good.height + _MOST_GONE:
        key_index = KeyIndex(key_index.buffers)
    number = _numbers(good, t_ns, key_index)
    order = None
    step = np.diff(number)
    if (step < 0).any() or ((step == 0) & (np.diff(t_ns) < 0)).any():
        order = np.lexsort((t_ns, number))
        number, t_ns = number[order], t_ns[order]
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    off = np.append(starts, good.height)
    metrics = tuple(name for name in good.columns if name not in (T_S, ENTITY, JOB))
    return SortedFrame(
        numbers=number[starts],
        key_index=key_index,
        off=off,
        t_ns=t_ns,
        clock_ns=_most(t_ns[off[1:] - 1]),
        metrics=metrics,
        untimed=frame.height - good.height,
        _frame=good,
        _present=good.select_seq(pl.col(metrics).is_not_null()),  # one query instead of many
        _order=order,
    )


def _usable(frame: Frame) -> Frame:
    """Return the rows that have a time and an entity: most often all of them, as they are."""
    t_s, entities = frame[T_S].to_numpy(), frame[ENTITY]
    timed = (t_s >= _SECONDS[0]) & (t_s <= _SECONDS[1])  # NaN is not usable
    if timed.all() and not entities.null_count():
        return frame
    return frame.filter(pl.Series(timed) & entities.is_not_null())


def _most(newest_ns: Longs) -> int:
    return int(np.sort(newest_ns)[len(newest_ns) // 2]) if len(newest_ns) else -(2**62)


def _numbers(frame: Frame, t_ns: Longs, key_index: KeyIndex) -> Longs:
    """Return the number of each row's key."""
    names = frame.select(ENTITY, JOB) if JOB in frame.columns else frame.select(ENTITY)
    if JOB in frame.columns and frame[JOB].null_count():
        names = names.with_columns(pl.col(JOB).fill_null(""))
    if len(t_ns) and t_ns.min() == t_ns.max():  # most frames have each key once
        return key_index.of(_keys(names))
    ranks = names.select(pl.all().rank("dense").cast(pl.Int64))
    code = ranks[ENTITY]
    if JOB in ranks.columns:
        code = (code * (frame.height + 1) + ranks[JOB]).rank("dense")
    row: Longs = code.to_numpy().astype(np.int64) - 1
    first = np.zeros(row.max(initial=-1) + 1, np.int64)
    first[row[::-1]] = np.arange(len(row))[::-1]  # the first of each is written last
    return key_index.of(_keys(names[first]))[row]


def _keys(names: Frame) -> list[Key]:
    jobs = names[JOB].to_list() if JOB in names.columns else repeat("")
    return list(zip(names[ENTITY].to_list(), jobs, strict=False))  # `repeat` has no end
