"""The compiled part of sorting: rates from counters, sums over series, rows from samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit

__all__ = ["ADDS", "BLANKS", "LATE", "PARTIAL", "REFUSED", "RISES", "assign_rows", "fold_samples"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

RISES, ADDS, BLANKS = 1, 2, 4  # flags: how a series is processed
REFUSED, LATE, PARTIAL = 0, 1, 2  # places in `dropped`
PENDING = 4  # moments that a sum may wait for at once
MISSING_LIMIT = 3  # times in a row that a part was missing before it counts as gone
# DCGM writes "blank" as huge numbers, one set for each type of field; the smallest are these.
_BLANKS = (2147483632.0, 140737488355312.0, 9223372036854774784.0)


@njit
def _blank(value: float) -> bool:
    for blank in _BLANKS:  # noqa: SIM110 - compiled
        if blank <= value <= blank * 1.0000001:
            return True
    return False


@njit
def fold_samples(  # noqa: C901, PLR0913, PLR0917 - one walk; a call per sample would cost more
    known: Ints,
    series: Ints,
    t_ms: Ints,
    values: Floats,
    longest_ms: int,
    now_ms: int,
    flags: Ints,
    scale: Floats,
    target: Ints,
    last_ms: Ints,
    last: Floats,
    parts: Ints,
    sums: Floats,
    out_ms: Ints,
    out_target: Ints,
    out: Floats,
    dropped: Ints,
) -> int:
    """Turn samples into readings of targets; return how many. Changes all from `last_ms` on.

    `parts` has, per target: how many series make it up, until when new ones joined, and for each
    moment that waits its time, how many have come, and how often the sum lacked the same part.

    A time after `now_ms` that a sample of the present contradicts was wrong: what is known from it
    is dropped, else it would make all samples late until that time has come.
    """
    count = 0
    for row in range(len(series)):
        number = known[series[row]]
        if number < 0:
            dropped[REFUSED] += 1
            continue
        value, t = values[row], t_ms[row]
        bits = flags[number]
        if not np.isfinite(value) or (bits & BLANKS and _blank(value)):
            continue
        value *= scale[number]
        if bits & RISES:
            if t <= now_ms < last_ms[number]:
                last[number] = np.nan
            before, since = last[number], t - last_ms[number]
            if since <= 0 and not np.isnan(before):
                dropped[LATE] += since < 0
                continue
            last[number], last_ms[number] = value, t
            if np.isnan(before) or value < before or since > longest_ms:
                if not bits & ADDS:
                    continue
                value = np.nan  # the sum of this moment is not known
            else:
                value = (value - before) / (since * 0.001)
        else:
            last_ms[number] = max(last_ms[number], t)
        to = target[number]
        if bits & ADDS:
            value, done = _added(parts[to], sums[to], t, value, now_ms, dropped)
            if not done or np.isnan(value):
                continue
        out_ms[count], out_target[count], out[count] = t, to, value
        count += 1
    return count


@njit
def _added(  # noqa: C901 - compiled
    parts: Ints, sums: Floats, t: int, value: float, now_ms: int, dropped: Ints
) -> tuple[float, bool]:
    """Add a part to the sum of its moment; return the sum when all its parts have come."""
    place = -1
    if t <= now_ms < parts[1]:
        parts[1] = t
    for each in range(PENDING):
        if t <= now_ms < parts[3 + 2 * each]:
            parts[3 + 2 * each], parts[4 + 2 * each] = 0, 0
        if parts[3 + 2 * each] == t:
            place = each
    if place < 0:  # a new moment takes the place of the oldest
        place = 0
        for each in range(1, PENDING):
            if parts[3 + 2 * each] < parts[3 + 2 * place]:
                place = each
        if t < parts[3 + 2 * place]:
            dropped[LATE] += 1
            return 0.0, False
        short = parts[4 + 2 * place]
        if 0 < short < parts[0]:
            dropped[PARTIAL] += 1
            parts[2] += 1
            if parts[2] >= MISSING_LIMIT:  # a core or an interface is gone
                parts[0], parts[2] = short, 0
        parts[3 + 2 * place], parts[4 + 2 * place] = t, 0
        sums[place] = 0.0
    parts[4 + 2 * place] += 1
    sums[place] += value
    complete = parts[4 + 2 * place] == parts[0]
    if complete:
        parts[2] = 0
    return sums[place], complete and t > parts[1]


@njit
def assign_rows(t_ms: Ints, entity: Ints, slots: Ints, row: Ints) -> int:
    """Assign each distinct pair of time and entity a row; return how many. `slots` is all -1."""
    mask, count = len(slots) - 1, 0
    first = np.empty(len(t_ms), np.int64)  # the sample that a row began with
    for sample in range(len(t_ms)):
        t, owner = t_ms[sample], entity[sample]
        mixed = (np.uint64(t) * np.uint64(0x9E3779B97F4A7C15)) ^ (
            np.uint64(owner) * np.uint64(0xC2B2AE3D27D4EB4F)
        )
        slot = np.int64((mixed >> np.uint64(17)) & np.uint64(mask))
        while True:
            found = slots[slot]
            if found < 0:
                found = slots[slot] = count
                first[count] = sample
                count += 1
                break
            if t_ms[first[found]] == t and entity[first[found]] == owner:
                break
            slot = (slot + 1) & mask
        row[sample] = found
    return count
