"""The compiled reader of times: one walk over a line for each step of a template."""

from __future__ import annotations

import numpy as np

from steward.compiled import njit
from steward.observe.logs.formats import codes
from steward.observe.logs.formats.codes import FIELDS, NO_TIME, Ints, Octets
from steward.observe.logs.formats.fields import (
    clock,
    date,
    days_in,
    days_since_1970,
    digits,
    epoch,
    fraction,
    half,
    is_blank,
    is_digit,
    month,
    padded,
    seconds,
    zone,
)

__all__ = ["read_times", "read_within"]

_SECOND_NS = 1_000_000_000


@njit
def _skipped(buffer: Octets, at: int, end: int, op: int, a: int) -> int:  # noqa: C901 - compiled
    """Skip what is left out; return where it ends, or -1."""
    start = at
    if op == codes.BLANKS:
        while at < end and is_blank(buffer[at]):
            at += 1
        return at if at - start >= a else -1
    if op == codes.WORD:
        while at < end and not is_blank(buffer[at]):
            at += 1
        return at if at > start else -1
    if op == codes.SOME_DIGITS:
        while at < end and is_digit(buffer[at]):
            at += 1
        return at if at > start else -1
    if op == codes.LETTERS:
        while at < end and 97 <= buffer[at] | 32 <= 122:
            at += 1
        return at if at - start >= a else -1
    if op == codes.UNTIL:
        while at < end and buffer[at] != a:
            at += 1
        return at + 1 if at < end else -1
    return -1 if at < end and is_digit(buffer[at]) else at  # NO_DIGIT


@njit
def _one_of(buffer: Octets, at: int, end: int, pool: Octets, place: int, count: int) -> int:
    if at < end:
        for each in range(place, place + count):
            if buffer[at] == pool[each]:
                return at + 1
    return -1


@njit
def _steps(  # noqa: C901, PLR0912, PLR0913, PLR0917 - compiled: one loop over the steps
    buffer: Octets, at: int, end: int, steps: Ints, step: int, pool: Octets, fields: Ints
) -> int:
    """Run the steps of one template; return where they end, or -1. Changes `fields`."""
    while True:
        op, a, b = steps[step, 0], steps[step, 1], steps[step, 2]
        step += 1
        if op == codes.LITERAL:
            if at >= end or buffer[at] != a:
                return -1
            at += 1
        elif op == codes.DIGITS:
            value = digits(buffer, at, end, b)
            if value < 0:
                return -1
            fields[a] = value
            at += b
        elif op == codes.END:
            return at
        else:
            if op == codes.CLOCK:
                at = clock(buffer, at, end, fields)
            elif op == codes.DATE:
                at = date(buffer, at, end, a, fields)
            elif op == codes.MAYBE_FRACTION:
                if at + 1 < end and buffer[at] in (46, 44) and is_digit(buffer[at + 1]):
                    at = fraction(buffer, at + 1, end, 0, fields)
            elif op == codes.FRACTION:
                at = fraction(buffer, at, end, a, fields)
            elif op == codes.ZONE:
                at = zone(buffer, at, end, a, fields)
            elif op == codes.MONTH_NAME:
                at = month(buffer, at, end, fields)
            elif op == codes.PADDED:
                at = padded(buffer, at, end, a, fields)
            elif op == codes.HALF:
                at = half(buffer, at, end, fields)
            elif op == codes.SECONDS:
                at = seconds(buffer, at, end, a, b, fields)
            elif op == codes.EPOCH:
                at = epoch(buffer, at, end, a, b, fields)
            elif op == codes.ONE_OF:
                at = _one_of(buffer, at, end, pool, a, b)
            elif op == codes.SHORT_YEAR:
                value = digits(buffer, at, end, 2)
                if value < 0:
                    return -1
                fields[codes.YEAR] = value + (1900 if value >= 69 else 2000)
                at += 2
            elif op == codes.TEXT:
                fields[codes.TEXT_AT] = at
            else:
                at = _skipped(buffer, at, end, op, a)
            if at < 0:
                return -1


@njit
def _moment(  # noqa: C901, PLR0911 - compiled
    fields: Ints, limit_ns: int, limit_year: int
) -> int:
    """Put the fields together; NO_TIME if there is no such moment."""
    if fields[codes.EPOCH_NS] != NO_TIME:
        return int(fields[codes.EPOCH_NS])
    hour = fields[codes.HOUR]
    if fields[codes.AFTERNOON] >= 0:
        if hour > 12:
            return NO_TIME
        hour = hour % 12 + 12 * fields[codes.AFTERNOON]
    month, day = fields[codes.MONTH], fields[codes.DAY]
    if month < 0:  # a clock alone: of the first day
        fields[codes.YEAR], month, day = 1970, 1, 1
    if not (1 <= month <= 12 and day >= 1 and hour < 24):
        return NO_TIME
    if fields[codes.MINUTE] > 59 or fields[codes.SECOND] > 59:
        return NO_TIME
    clock_s = hour * 3600 + fields[codes.MINUTE] * 60 + fields[codes.SECOND] - fields[codes.ZONE_S]
    year = fields[codes.YEAR]
    given = year >= 0
    if not given:
        year = limit_year
    if not 1678 <= year <= 2261:
        return NO_TIME
    t_ns = NO_TIME
    if day <= days_in(year, month):
        t_ns = (days_since_1970(year, month, day) * 86400 + clock_s) * _SECOND_NS
        t_ns += fields[codes.FRACTION_NS]
    if not given and (t_ns == NO_TIME or t_ns > limit_ns):
        year -= 1
        if day > days_in(year, month):
            return NO_TIME
        t_ns = (days_since_1970(year, month, day) * 86400 + clock_s) * _SECOND_NS
        t_ns += fields[codes.FRACTION_NS]
    return t_ns


@njit
def _after_colours(buffer: Octets, at: int, end: int) -> int:
    """Skip terminal escapes: ESC [ digits and semicolons, m."""
    while at + 1 < end and buffer[at] == 27 and buffer[at + 1] == 91:
        last = at + 2
        while last < end and (is_digit(buffer[last]) or buffer[last] == 59):
            last += 1
        if last >= end or buffer[last] != 109:
            return at
        at = last + 1
    return at


@njit
def _after_prefix(buffer: Octets, at: int, end: int) -> int:  # noqa: C901, PLR0911 - compiled
    """Skip `[rank3]: `, `[default0]:`, `3: ` (srun -l), `[1,0]<stdout>:` (mpirun), colours."""
    at = _after_colours(buffer, at, end)
    start = at
    while at < end and at - start < 3 and buffer[at] == 32:  # srun -l pads the number
        at += 1
    if at >= end:
        return start
    if is_digit(buffer[at]):
        while at < end and is_digit(buffer[at]):
            at += 1
        if at + 1 < end and buffer[at] == 58 and buffer[at + 1] == 32:
            return at + 2
        return start
    if buffer[at] != 91:
        return start
    last = min(end, at + 24)
    while at < last and buffer[at] != 93:
        at += 1
    if at >= last or not is_digit(buffer[at - 1]):
        return start
    at += 1
    if at < end and buffer[at] == 60:  # <stdout>
        while at < end and buffer[at] != 62:
            at += 1
        at += 1
    if at >= end or buffer[at] != 58:
        return start
    at += 1
    if at < end and buffer[at] == 32:
        at += 1
    return at


@njit
def _found(buffer: Octets, at: int, end: int, pool: Octets, place: int, length: int) -> int:
    """Return where the text after the next occurrence of a literal begins, or -1."""
    first = pool[place]
    while at + length <= end:
        if buffer[at] == first:
            same = 1
            while same < length and buffer[at + same] == pool[place + same]:
                same += 1
            if same == length:
                return at + length
        at += 1
    return -1


@njit
def _clear(fields: Ints) -> None:
    for field in range(FIELDS):
        fields[field] = 0
    fields[codes.YEAR] = -1
    fields[codes.MONTH] = -1
    fields[codes.AFTERNOON] = -1
    fields[codes.EPOCH_NS] = NO_TIME
    fields[codes.TEXT_AT] = -1


@njit
def _time_of(  # noqa: PLR0913, PLR0917 - compiled
    buffer: Octets,
    at: int,
    end: int,
    heads: Ints,
    head: int,
    steps: Ints,
    pool: Octets,
    years: Ints,
    fields: Ints,
) -> int:
    """Return the time by one template, or NO_TIME. Changes `fields`."""
    place, length, flags, step = heads[head, 0], heads[head, 1], heads[head, 2], heads[head, 3]
    if flags & codes.PREFIXED:
        at = _after_prefix(buffer, at, end)
    while True:
        if length > 0:
            at = _found(buffer, at, end, pool, place, length)
            if at < 0:
                return NO_TIME
        _clear(fields)
        if _steps(buffer, at, end, steps, step, pool, fields) >= 0:
            t_ns = _moment(fields, years[0], years[1])
            if t_ns != NO_TIME:
                return t_ns + years[2] if flags & codes.RELATIVE else t_ns
        if length == 0:
            return NO_TIME


@njit
def read_times(  # noqa: PLR0913, PLR0917 - compiled
    buffer: Octets,
    start: Ints,
    end: Ints,
    heads: Ints,
    steps: Ints,
    pool: Octets,
    years: Ints,
    t_ns: Ints,
    text: Ints,
) -> None:
    """Read the time of each line by the first template that fits. Changes `t_ns` and `text`.

    A time of 0 counts as none. `years` is the latest time that a line without a year may mean,
    its year, and when the machine started.
    """
    fields = np.zeros(FIELDS, np.int64)
    for line in range(len(start)):
        t_ns[line] = NO_TIME
        text[line] = start[line]
        for head in range(len(heads)):
            t = _time_of(buffer, start[line], end[line], heads, head, steps, pool, years, fields)
            if t != NO_TIME and t != 0:  # noqa: PLR1714 - compiled
                t_ns[line] = t
                if fields[codes.TEXT_AT] >= 0:
                    text[line] = fields[codes.TEXT_AT]
                break


@njit
def read_within(  # noqa: PLR0913, PLR0917 - compiled
    buffer: Octets, at: int, end: int, heads: Ints, steps: Ints, pool: Octets, years: Ints
) -> int:
    """Read one time that is all that stands between `at` and `end`; NO_TIME if it is not."""
    fields = np.empty(FIELDS, np.int64)
    _clear(fields)
    if _steps(buffer, at, end, steps, heads[0, 3], pool, fields) != end:
        return NO_TIME
    t_ns = _moment(fields, years[0], years[1])
    return NO_TIME if t_ns == 0 else t_ns
