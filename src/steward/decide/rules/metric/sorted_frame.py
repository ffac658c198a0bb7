"""A frame sorted into series, once for all terms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
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
        self._number: dict[Key, int] = {}
        self.label_index = LabelIndex()  # the same for labels

    def __len__(self) -> int:
        return len(self._number)

    def of(self, keys: Iterable[Key]) -> Longs:
        """Return the numbers of keys; new ones get the next."""
        number = self._number
        return np.array([number.setdefault(key, len(number)) for key in keys], np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SortedFrame:
    """Rows by entity and time. `keys` are entities, or entities with the job that held them."""

    keys: tuple[Key, ...]
    numbers: Longs  # of the keys
    key_index: KeyIndex
    off: Longs  # rows of key `i` are `[off[i]:off[i + 1]]`
    t_ns: Longs
    clock_ns: int  # the time of most entities: one clock far ahead does not count
    metrics: tuple[str, ...]  # columns that have values
    untimed: int  # rows without a usable time or entity, which are left out
    _frame: Frame
    _order: Longs | None  # of the frame's rows; None: as they are
    _columns: dict[str, tuple[Floats, Bools]] = field(default_factory=dict)

    def column(self, name: str) -> tuple[Floats, Bools]:
        """Return the values of a metric and where there are any; NaN is one: "none from now"."""
        found = self._columns.get(name)
        if found is None:
            series = self._frame[name]
            values, present = series.to_numpy(), np.ones(len(series), bool)
            if series.null_count():
                present = series.is_not_null().to_numpy()
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
    code = _codes(good)
    t_ns = nanoseconds(good[T_S].to_numpy())
    order = None
    step = np.diff(code)
    if (step < 0).any() or ((step == 0) & (np.diff(t_ns) < 0)).any():
        order = np.lexsort((t_ns, code))
        code, t_ns = code[order], t_ns[order]
    starts = np.flatnonzero(np.diff(code, prepend=-1))
    rows = starts if order is None else order[starts]
    entities = good[ENTITY].gather(rows).to_list()
    jobs = good[JOB].gather(rows).to_list() if JOB in good.columns else [None] * len(entities)
    keys = tuple((entity, job or "") for entity, job in zip(entities, jobs, strict=True))
    most = 2 * len(keys) + _MOST_GONE
    if before is None:
        key_index = KeyIndex()
    else:
        key_index = before if len(before) <= most else KeyIndex(before.buffers)
    off = np.append(starts, len(code))
    return SortedFrame(
        keys=keys,
        numbers=key_index.of(keys),
        key_index=key_index,
        off=off,
        t_ns=t_ns,
        clock_ns=_most(t_ns[off[1:] - 1]),
        metrics=tuple(name for name in good.columns if name not in (T_S, ENTITY, JOB)),
        untimed=frame.height - good.height,
        _frame=good,
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


def _codes(frame: Frame) -> Longs:
    """Return a number for each entity and job."""
    names = [name for name in (ENTITY, JOB) if name in frame.columns]
    ranks = frame.select(pl.col(name).fill_null("").rank("dense").cast(pl.Int64) for name in names)
    code = ranks[ENTITY].to_numpy()
    return code if len(names) == 1 else code * (frame.height + 1) + ranks[JOB].to_numpy()
