"""Compiled loops over samples: lookback, range functions, and hold times."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit

__all__ = [
    "NEVER_NS",
    "ONGOING",
    "Floats",
    "HoldState",
    "Longs",
    "Points",
    "SeriesSamples",
    "expire",
    "held",
    "last_values",
    "latest",
    "over_range",
    "repeated",
]  # fmt: skip

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
ABSENT = 19  # numbers of functions are those of `promql/functions.py`
NEVER_NS = 2**62
ONGOING = 2**62  # end of a condition that still holds
SHORT_NS = 10 * 10**9  # shorter gaps are ignored
_NEVER = np.iinfo(np.int64).min


class SeriesSamples(NamedTuple):
    """Samples of many series, one series after the other, oldest first.

    Those of series `i` are `[off[i]:off[i + 1]]` of `t` (ns) and `v`. NaN marks the series as
    absent from then on.
    """

    off: Longs
    t: Longs
    v: Floats


class Points(NamedTuple):
    """Evaluation times of series, laid out as their samples are."""

    off: Longs
    t: Longs


def repeated(times: Longs, count: int) -> Longs:
    """Return the same times for each of `count` series, as points have them."""
    return np.full(count, times[0]) if len(times) == 1 else np.tile(times, count)


class HoldState(NamedTuple):
    """For each series: since when it holds, whether that was reported, when it was evaluated.

    -1 where it does not hold.
    """

    since: Longs
    reported: NDArray[np.bool_]
    last: Longs
    step: Longs  # between the last two evaluations; 0 where there was none


@njit
def _after(t: Longs, low: int, high: int, at: int) -> int:
    """Return the first of `[low, high)` that is later than `at`, or `high`."""
    while low < high:
        middle = (low + high) // 2
        if t[middle] <= at:
            low = middle + 1
        else:
            high = middle
    return low


@njit
def latest(samples: SeriesSamples, points: Points, back_ns: int) -> Floats:
    """Return the newest value at each time, not older than `back_ns`; NaN where there is none."""
    out = np.full(len(points.t), np.nan)
    for i in range(len(points.off) - 1):
        first = samples.off[i]
        end = samples.off[i + 1]
        if points.off[i] == points.off[i + 1]:
            continue
        j = _after(samples.t, first, end, points.t[points.off[i]])
        for k in range(points.off[i], points.off[i + 1]):
            while j < end and samples.t[j] <= points.t[k]:
                j += 1
            if j > first and points.t[k] - samples.t[j - 1] <= back_ns:
                out[k] = samples.v[j - 1]
    return out


@njit
def over_range(  # noqa: C901 - compiled
    samples: SeriesSamples, points: Points, range_ns: int, op: int, parameter: float
) -> Floats:
    """Apply a function to the samples of `[t - range, t]`, for each point."""
    out = np.full(len(points.t), np.nan)
    x = np.empty(len(samples.t), np.int64)
    y = np.empty(len(samples.t), np.float64)
    for i in range(len(points.off) - 1):
        if points.off[i] == points.off[i + 1]:  # as of all jobs that ended in the last hour
            continue
        first = samples.off[i]
        if op != ABSENT:  # which depends on whether there ever was a sample
            begin = points.t[points.off[i]] - range_ns - 1
            first = _after(samples.t, first, samples.off[i + 1], begin)
        n = 0  # samples of this series that are numbers
        for j in range(first, samples.off[i + 1]):
            if samples.t[j] > points.t[points.off[i + 1] - 1]:
                break
            if samples.v[j] == samples.v[j]:
                x[n] = samples.t[j]
                y[n] = samples.v[j]
                n += 1
        low = 0
        high = 0
        for k in range(points.off[i], points.off[i + 1]):
            at = points.t[k]
            while high < n and x[high] <= at:
                high += 1
            while low < high and x[low] < at - range_ns:
                low += 1
            if low < high:
                out[k] = _one(x[low:high], y[low:high], at, range_ns, op, parameter)
            elif op == ABSENT and high > 0:
                out[k] = 1.0
    return out


@njit
def _one(x: Longs, y: Floats, at: int, range_ns: int, op: int, parameter: float) -> float:
    if op < 3:
        return _extrapolated(x, y, at, range_ns, op)
    if op < 5:
        return _last_two(x, y, op)
    if op < 7:
        return _trend(x, y, at, op, parameter)
    if op < 9:
        return _turns(y, op)
    if op == 9 or op == 12 or op == 16 or op == 17:  # noqa: PLR1714 - numba
        return _moment(y, op)
    return _plain(y, op, parameter)


@njit
def _turns(y: Floats, op: int) -> float:
    count = 0.0
    for i in range(1, len(y)):
        if (op == 7 and y[i] != y[i - 1]) or (op == 8 and y[i] < y[i - 1]):
            count += 1.0
    return count


@njit
def _plain(y: Floats, op: int, parameter: float) -> float:
    if op == 18:
        return _quantile(_sorted(y), parameter)
    if op < 12:
        best = y[0]
        for value in y:
            best = min(best, value) if op == 10 else max(best, value)
        return float(best)
    if op == 13:
        return float(len(y))
    if op == 14:
        return float(y[-1])
    return np.nan if op == ABSENT else 1.0


@njit
def _moment(y: Floats, op: int) -> float:
    total = 0.0
    for value in y:
        total += value
    if op == 12:
        return total
    mean = total / len(y)
    if op == 9:
        return mean
    square = 0.0
    for value in y:
        square += (value - mean) ** 2
    square /= len(y)
    return np.sqrt(square) if op == 16 else square


@njit
def _extrapolated(x: Longs, y: Floats, at: int, range_ns: int, op: int) -> float:
    """Growth of the whole range from that of its samples, as Prometheus computes it."""
    n = len(x)
    if n < 2:
        return np.nan
    growth = y[n - 1] - y[0]
    if op < 2:  # a falling counter was reset
        for i in range(1, n):
            if y[i] < y[i - 1]:
                growth += y[i - 1]
    to_start = (x[0] - (at - range_ns)) / 1e9
    to_end = (at - x[n - 1]) / 1e9
    seen_s = (x[n - 1] - x[0]) / 1e9
    step_s = seen_s / (n - 1)
    if op < 2 and growth > 0 and y[0] >= 0:
        to_zero = seen_s * (y[0] / growth)
        to_start = min(to_start, to_zero)
    whole_s = seen_s
    whole_s += to_start if to_start < step_s * 1.1 else step_s / 2
    whole_s += to_end if to_end < step_s * 1.1 else step_s / 2
    found = growth * (whole_s / seen_s)
    return float(found / (range_ns / 1e9) if op == 0 else found)


@njit
def _last_two(x: Longs, y: Floats, op: int) -> float:
    n = len(x)
    if n < 2:
        return np.nan
    if op == 4:
        return float(y[n - 1] - y[n - 2])
    growth = y[n - 1] if y[n - 1] < y[n - 2] else y[n - 1] - y[n - 2]
    return float(growth / ((x[n - 1] - x[n - 2]) / 1e9))


@njit
def _trend(x: Longs, y: Floats, at: int, op: int, ahead_s: float) -> float:
    """Slope of a straight line through the samples, or where it will be."""
    n = len(x)
    if n < 2:
        return np.nan
    zero = x[0] if op == 5 else at
    mean_x = 0.0
    mean_y = 0.0
    for i in range(n):
        mean_x += (x[i] - zero) / 1e9
        mean_y += y[i]
    mean_x /= n
    mean_y /= n
    both = 0.0
    square = 0.0
    for i in range(n):
        away = (x[i] - zero) / 1e9 - mean_x
        both += away * (y[i] - mean_y)
        square += away * away
    slope = both / square
    return slope if op == 5 else mean_y - slope * mean_x + slope * ahead_s


@njit
def _sorted(y: Floats) -> Floats:
    """Sort few numbers (Shell): numpy's sort would take seconds to compile."""
    out = y.copy()
    gap = len(out) // 2
    while gap > 0:
        for i in range(gap, len(out)):
            value = out[i]
            j = i
            while j >= gap and out[j - gap] > value:
                out[j] = out[j - gap]
                j -= gap
            out[j] = value
        gap //= 2
    return out


@njit
def _quantile(ordered: Floats, q: float) -> float:
    n = len(ordered)
    if q < 0:
        return -np.inf
    if q > 1:
        return np.inf
    rank = q * (n - 1)
    below = int(np.floor(rank))
    above = min(below + 1, n - 1)
    part = rank - below
    return float(ordered[below] * (1 - part) + ordered[above] * part)


@njit
def expire(
    samples: SeriesSamples, after_ns: int, for_ns: int, begin: Longs, end: int
) -> tuple[Longs, Longs]:
    """Return when each series had been silent for `after_ns`, and for `for_ns` more.

    Only times in `(begin[i], end]` at which it still was silent; offsets and times, in order.
    """
    n = len(samples.off) - 1
    off = np.zeros(n + 1, np.int64)
    out = np.empty(2 * len(samples.t), np.int64)
    k = 0
    for i in range(n):
        last = _NEVER
        for j in range(samples.off[i], samples.off[i + 1] + 1):
            next_ns = end + 1
            if j < samples.off[i + 1]:
                if samples.v[j] != samples.v[j]:
                    continue
                next_ns = samples.t[j]
            if last != _NEVER:
                for due in (last + after_ns + 1, last + after_ns + 1 + for_ns):
                    if (
                        begin[i] < due < next_ns
                        and due <= end
                        and (k == off[i] or out[k - 1] < due)
                    ):
                        out[k] = due
                        k += 1
            last = next_ns
        off[i + 1] = k
    return off, out[:k].copy()


@njit
def last_values(samples: SeriesSamples) -> Longs:
    """Return when each series that has values had its last; NaN is none."""
    out = np.empty(len(samples.off) - 1, np.int64)
    k = 0
    for i in range(len(samples.off) - 1):
        for j in range(samples.off[i + 1] - 1, samples.off[i] - 1, -1):
            if samples.v[j] == samples.v[j]:
                out[k] = samples.t[j]
                k += 1
                break
    return out[:k].copy()


@njit
def _too_long(step_ns: int, gap_ns: int) -> int:
    """Return the longest gap between evaluations over which a condition counts as held."""
    if step_ns > 0 and gap_ns < NEVER_NS:
        return min(gap_ns, max(10 * step_ns, SHORT_NS))
    return gap_ns


@njit
def held(
    values: Floats, points: Points, state: HoldState, for_ns: int, gap_ns: int
) -> tuple[Longs, Longs, Longs]:
    """Return the points at which a condition had held for `for_ns`, since when, and until when.

    It is reported once per stretch, with ONGOING as its end, and once more when it is over. A
    condition starts anew that was not evaluated for more than `gap_ns`, or for ten times as long as
    before: its value in such a gap is unknown. Changes `state`.
    """
    out = np.empty(2 * len(points.t), np.int64)
    since = np.empty(2 * len(points.t), np.int64)
    until = np.empty(2 * len(points.t), np.int64)
    count = 0
    for i in range(len(points.off) - 1):
        for k in range(points.off[i], points.off[i + 1]):
            at = points.t[k]
            gap = _too_long(state.step[i], gap_ns)
            broken = state.since[i] >= 0 and at - state.last[i] > gap
            holds = values[k] == values[k]
            if state.reported[i] and (broken or not holds):
                out[count] = k
                since[count] = state.since[i]
                until[count] = min(at, state.last[i] + gap)
                count += 1
            if broken or not holds:
                state.since[i] = -1
                state.reported[i] = False
            if holds:
                if state.since[i] < 0:
                    state.since[i] = at
                if not state.reported[i] and at - state.since[i] >= for_ns:
                    state.reported[i] = True
                    out[count] = k
                    since[count] = state.since[i]
                    until[count] = ONGOING
                    count += 1
            state.step[i] = at - state.last[i] if state.last[i] > -NEVER_NS else 0
            state.last[i] = at
    return out[:count].copy(), since[:count].copy(), until[:count].copy()
