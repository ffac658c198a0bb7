"""One start of time for all rows: dates and epochs count from the first job, units are told."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["from_start"]

Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]

# No trace lasts 19 years, and none is older than 1989: a larger number counts from 1970, and
# its size tells the unit (seconds now are 1.8e9, milliseconds 1.8e12, …).
EPOCH_S = 6e8
_FINER = ((1e11, 1e3, "milliseconds"), (1e14, 1e6, "microseconds"), (1e17, 1e9, "nanoseconds"))
_LARGEST = 1e20


class TimeNote(Protocol):
    """Says something about some rows."""

    def __call__(self, reason: str, which: Mask) -> None: ...


def from_start(
    submit_s: Floats, zoned: Mask | None, *, kept: Mask, leave: TimeNote, mend: TimeNote
) -> Floats:
    """Return times from the start of the trace; `leave` and `mend` hear what was odd.

    Numbers that are no epoch stay as they are, unless some are negative.
    """
    leave("submit_s is out of any range", np.abs(submit_s) > _LARGEST)
    if zoned is not None:
        mend("a time has no time zone: taken as UTC", ~zoned & (zoned & kept).any())
        return submit_s - _first(submit_s, kept)
    times = _in_seconds(submit_s, mend)
    absolute = times >= EPOCH_S
    _one_start(absolute, kept=kept, leave=leave)
    first = _first(times, kept)
    if first < 0:
        mend("submit_s is negative: all times are shifted", times < 0)
    return times - first if first < 0 or first >= EPOCH_S else times


def _first(times: Floats, kept: Mask) -> float:
    return float(times[kept].min()) if kept.any() else 0.0


def _in_seconds(submit_s: Floats, mend: TimeNote) -> Floats:
    times = submit_s.copy()
    for least, per_s, unit in _FINER:
        fine = (submit_s >= least) & (submit_s < least * 1e3)
        mend(f"submit_s looks like {unit} since 1970: taken as such", fine)
        times[fine] /= per_s
    return times


def _one_start(absolute: Mask, *, kept: Mask, leave: TimeNote) -> None:
    dated = int((absolute & kept).sum())
    if 0 < dated < int(kept.sum()):
        fewer = absolute if 2 * dated < int(kept.sum()) else ~absolute
        leave("submit_s counts from another start than most (1970, or the trace)", fewer)
