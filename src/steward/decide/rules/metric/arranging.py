"""A frame as many series side by side, so that all terms can share the work of sorting it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.decide.rules.metric.kernels import Floats, Longs
from steward.model.frame import ENTITY, T_S, Frame

__all__ = ["JOB", "Arranged", "arrange", "nanoseconds"]

JOB = "job_id"  # a column of a frame that says who held the entity
Bools = NDArray[np.bool_]
_SECONDS = (-9.2e9, 9.2e9)  # what fits into 64 bits of nanoseconds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arranged:
    """Rows by entity and time. `keys` are entities, or entities with the job that held them."""

    keys: tuple[tuple[str, str], ...]
    off: Longs  # rows of key `i` are `[off[i]:off[i + 1]]`
    t_ns: Longs
    untimed: int  # rows without a usable time or entity, which are left out
    _frame: Frame
    _order: Longs | None  # of the frame's rows; None: as they are
    _columns: dict[str, tuple[Floats, Bools]] = field(default_factory=dict)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Columns that have values."""
        return tuple(name for name in self._frame.columns if name not in (T_S, ENTITY, JOB))

    @property
    def clock_ns(self) -> int:
        """What time it is for most: one clock that is far ahead does not count."""
        newest = np.sort(self.t_ns[self.off[1:] - 1])
        return int(newest[len(newest) // 2]) if len(newest) else -(2**62)

    def column(self, name: str) -> tuple[Floats, Bools]:
        """Return the values of a metric and where there are any; NaN is one: "none from now"."""
        found = self._columns.get(name)
        if found is None:
            series = self._frame[name]
            values, there = series.to_numpy(), series.is_not_null().to_numpy()
            if self._order is not None:
                values, there = values[self._order], there[self._order]
            found = self._columns[name] = (values, there)
        return found


def nanoseconds(t_s: Floats) -> Longs:
    """Return whole microseconds, in nanoseconds: a float has no more digits today."""
    return np.round(t_s * 1e6).astype(np.int64) * 1000


def arrange(frame: Frame) -> Arranged:
    """Sort a frame by entity and time; rows that have neither are counted."""
    usable = pl.col(T_S).is_between(*_SECONDS) & pl.col(ENTITY).is_not_null()
    good = frame.filter(usable)
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
    return Arranged(
        keys=tuple((entity, job or "") for entity, job in zip(entities, jobs, strict=True)),
        off=np.append(starts, len(code)),
        t_ns=t_ns,
        untimed=frame.height - good.height,
        _frame=good,
        _order=order,
    )


def _codes(frame: Frame) -> Longs:
    """Return a number for each entity and job."""
    names = [name for name in (ENTITY, JOB) if name in frame.columns]
    ranks = frame.select(pl.col(name).fill_null("").rank("dense").cast(pl.Int64) for name in names)
    code = ranks[ENTITY].to_numpy()
    return code if len(names) == 1 else code * (frame.height + 1) + ranks[JOB].to_numpy()
