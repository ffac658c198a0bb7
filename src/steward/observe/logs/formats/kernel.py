"""The compiled reader of times: one walk over a line for each step of a template."""

from __future__ import annotations

import numpy as np

from steward.compiled import njit
from steward.observe.logs.formats import codes
from steward.observe.logs.formats.codes import FIELDS, NO_TIME, Ints, Octets

__all__ = ["read_times", "read_within"]

_DAYS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)
_NAMES = np.frombuffer(b"janfebmaraprmayjunjulaugsepoctnovdec", np.uint8)
_SECOND_NS = 1_000_000_000
_CUT = 9_223_372_036  # seconds beyond this do not fit into nanoseconds: the unit is a smaller one
_LAST_S = 9_223_372_035


@njit
def _days_since_1970(year: int, month: int, day: int) -> int:
    if month <= 2:
        year -= 1
        month += 12
    return (
        365 * year + year // 4 - year // 100 + year // 400 + (153 * month - 457) // 5 + day - 719469
    )


@njit
def _days_in(year: int, month: int) -> int:
    if month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
        return 29
    return int(_DAYS[month - 1])


@njit
def _is_digit(octet: int) -> bool:
    return 48 <= octet <= 57


@njit
def _is_blank(octet: int) -> bool:
    return octet == 32 or octet == 9  # noqa: PLR1714 - compiled


@njit
def _zone(  # noqa: C901, PLR0911 - compiled: one look
    buffer: Octets, at: int, end: int, ways: int, fields: Ints
) -> int:
    """Read a zone; return where it ends, or -1. What is only perhaps there is left where it is."""
    missing = at if ways & codes.ZONE_MAYBE else -1
    start = at
    if ways & codes.ZONE_APART and start < end and buffer[start] == 32:
        start += 1
    if start >= end:
        return missing
    first = buffer[start]
    if first == 90 and ways & codes.ZONE_Z:  # Z
        if start > at and start + 1 < end and buffer[start + 1] > 32:
            return missing  # a word that begins with Z
        return start + 1
    if first not in (43, 45):
        return missing
    if start + 4 >= end or not (_is_digit(buffer[start + 1]) and _is_digit(buffer[start + 2])):
        if (
            start + 2 < end
            and start == at
            and ways & codes.ZONE_MAYBE
            and _is_digit(buffer[start + 1])
            and _is_digit(buffer[start + 2])
        ):
            return _offset(buffer, start, -1, fields)
        return missing
    colon = buffer[start + 3] == 58
    minutes = start + 4 if colon else start + 3
    if minutes + 1 >= end or not (_is_digit(buffer[minutes]) and _is_digit(buffer[minutes + 1])):
        if start == at and ways & codes.ZONE_MAYBE:
            return _offset(buffer, start, -1, fields)  # `+00`, as PostgreSQL writes it
        return missing
    if not ways & (codes.ZONE_COLON if colon else codes.ZONE_PLAIN):
        return missing
    if start > at and minutes + 2 < end and _is_digit(buffer[minutes + 2]):
        return missing  # a number, not a zone
    return _offset(buffer, start, minutes, fields)


@njit
def _offset(buffer: Octets, start: int, minutes: int, fields: Ints) -> int:
    # `int` says what the compiler does anyway, so that it is the same where nothing is compiled.
    hours = (int(buffer[start + 1]) - 48) * 10 + int(buffer[start + 2]) - 48
    offset_s = hours * 3600
    after = start + 3
    if minutes >= 0:
        offset_s += ((int(buffer[minutes]) - 48) * 10 + int(buffer[minutes + 1]) - 48) * 60
        after = minutes + 2
    fields[codes.ZONE_S] = -offset_s if buffer[start] == 45 else offset_s
    return after


@njit
def _fraction(buffer: Octets, at: int, end: int, digits: int, fields: Ints) -> int:
    """Read a fraction of that many digits, or of all there are; return where it ends, or -1."""
    value, scale, read = np.int64(0), np.int64(100_000_000), 0
    while at < end and _is_digit(buffer[at]) and (digits == 0 or read < digits):
        value += (buffer[at] - 48) * scale
        scale //= 10
        at += 1
        read += 1
    if read == 0 or (digits > 0 and read < digits):
        return -1
    fields[codes.FRACTION_NS] = value
    return at


@njit
def _epoch(buffer: Octets, at: int, end: int, unit_ns: int, fewest: int, fields: Ints) -> int:
    value, read = np.int64(0), 0
    while at < end and read < 19 and _is_digit(buffer[at]):
        if value > 922_337_203_685_477_580:
            return -1
        value = value * 10 + (buffer[at] - 48)
        at += 1
        read += 1
    if read < fewest or read == 0 or value < 0:
        return -1
    if unit_ns == codes.ANY_UNIT:
        unit_ns = _SECOND_NS
        cut = np.int64(_CUT)
        while unit_ns > 1 and value >= cut:
            unit_ns //= 1000
            cut *= 1000
    if value > 9_223_372_036_854_775_807 // unit_ns:
        return -1
    fields[codes.EPOCH_NS] = value * unit_ns
    return at


@njit
def _seconds(buffer: Octets, at: int, end: int, must: int, fewest: int, fields: Ints) -> int:
    """Read seconds with perhaps a fraction; whole ones that are too large have smaller units."""
    value, read = np.int64(0), 0
    while at < end and read < 19 and _is_digit(buffer[at]):
        if value > 922_337_203_685_477_580:
            return -1
        value = value * 10 + (buffer[at] - 48)
        at += 1
        read += 1
    if read < fewest or value < 0:
        return -1
    if at + 1 < end and buffer[at] == 46 and _is_digit(buffer[at + 1]):
        if value > _LAST_S:
            return -1
        after = _fraction(buffer, at + 1, end, 0, fields)
        fields[codes.EPOCH_NS] = value * _SECOND_NS + fields[codes.FRACTION_NS]
        return after
    if must:
        return -1
    return _epoch(buffer, at - read, end, codes.ANY_UNIT, 1, fields)


@njit
def _month(buffer: Octets, at: int, end: int, fields: Ints) -> int:
    if at + 3 > end:
        return -1
    for month in range(12):
        if (
            buffer[at] | 32 == _NAMES[3 * month]
            and buffer[at + 1] | 32 == _NAMES[3 * month + 1]
            and buffer[at + 2] | 32 == _NAMES[3 * month + 2]
        ):
            fields[codes.MONTH] = month + 1
            return at + 3
    return -1


@njit
def _padded(buffer: Octets, at: int, end: int, field: int, fields: Ints) -> int:
    """Read one or two digits after perhaps a blank."""
    if at < end and buffer[at] == 32:
        at += 1
    if at >= end or not _is_digit(buffer[at]):
        return -1
    value = np.int64(buffer[at] - 48)
    at += 1
    if at < end and _is_digit(buffer[at]):
        value = value * 10 + (buffer[at] - 48)
        at += 1
    fields[field] = value
    return at


@njit
def _digits(buffer: Octets, at: int, end: int, count: int) -> int:
    """Return the number that so many digits make, or -1."""
    if at + count > end:
        return -1
    value = 0
    for place in range(at, at + count):
        digit = int(buffer[place]) - 48
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
    return value


@njit
def _two(buffer: Octets, at: int) -> int:
    """Return the number that two digits make; far below 0 if they are none."""
    tens, ones = int(buffer[at]) - 48, int(buffer[at + 1]) - 48
    if tens < 0 or tens > 9 or ones < 0 or ones > 9:
        return -100_000
    return tens * 10 + ones


@njit
def _date(buffer: Octets, at: int, end: int, between: int, fields: Ints) -> int:
    if at + 10 > end or buffer[at + 4] != between or buffer[at + 7] != between:
        return -1
    year = _two(buffer, at) * 100 + _two(buffer, at + 2)
    month, day = _two(buffer, at + 5), _two(buffer, at + 8)
    if year < 0 or month < 0 or day < 0:
        return -1
    fields[codes.YEAR], fields[codes.MONTH], fields[codes.DAY] = year, month, day
    return at + 10


@njit
def _clock(buffer: Octets, at: int, end: int, fields: Ints) -> int:
    if at + 8 > end or buffer[at + 2] != 58 or buffer[at + 5] != 58:
        return -1
    hour, minute, second = _two(buffer, at), _two(buffer, at + 3), _two(buffer, at + 6)
    if hour < 0 or minute < 0 or second < 0:
        return -1
    fields[codes.HOUR], fields[codes.MINUTE], fields[codes.SECOND] = hour, minute, second
    return at + 8


@njit
def _half(buffer: Octets, at: int, end: int, fields: Ints) -> int:
    if at + 2 > end or buffer[at + 1] | 32 != 109:
        return -1
    first = buffer[at] | 32
    if first not in (97, 112):
        return -1
    fields[codes.AFTERNOON] = 1 if first == 112 else 0
    return at + 2


@njit
def _skipped(buffer: Octets, at: int, end: int, op: int, a: int) -> int:  # noqa: C901 - compiled
    """Go over what is left out; return where it ends, or -1."""
    start = at
    if op == codes.BLANKS:
        while at < end and _is_blank(buffer[at]):
            at += 1
        return at if at - start >= a else -1
    if op == codes.WORD:
        while at < end and not _is_blank(buffer[at]):
            at += 1
        return at if at > start else -1
    if op == codes.SOME_DIGITS:
        while at < end and _is_digit(buffer[at]):
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
    return -1 if at < end and _is_digit(buffer[at]) else at  # NO_DIGIT


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
    """Go through the steps of one template; return where they end, or -1. Changes `fields`."""
    while True:
        op, a, b = steps[step, 0], steps[step, 1], steps[step, 2]
        step += 1
        if op == codes.LITERAL:
            if at >= end or buffer[at] != a:
                return -1
            at += 1
        elif op == codes.DIGITS:
            value = _digits(buffer, at, end, b)
            if value < 0:
                return -1
            fields[a] = value
            at += b
        elif op == codes.END:
            return at
        else:
            if op == codes.CLOCK:
                at = _clock(buffer, at, end, fields)
            elif op == codes.DATE:
                at = _date(buffer, at, end, a, fields)
            elif op == codes.MAYBE_FRACTION:
                if at + 1 < end and buffer[at] in (46, 44) and _is_digit(buffer[at + 1]):
                    at = _fraction(buffer, at + 1, end, 0, fields)
            elif op == codes.FRACTION:
                at = _fraction(buffer, at, end, a, fields)
            elif op == codes.ZONE:
                at = _zone(buffer, at, end, a, fields)
            elif op == codes.MONTH_NAME:
                at = _month(buffer, at, end, fields)
            elif op == codes.PADDED:
                at = _padded(buffer, at, end, a, fields)
            elif op == codes.HALF:
                at = _half(buffer, at, end, fields)
            elif op == codes.SECONDS:
                at = _seconds(buffer, at, end, a, b, fields)
            elif op == codes.EPOCH:
                at = _epoch(buffer, at, end, a, b, fields)
            elif op == codes.ONE_OF:
                at = _one_of(buffer, at, end, pool, a, b)
            elif op == codes.SHORT_YEAR:
                value = _digits(buffer, at, end, 2)
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
    if day <= _days_in(year, month):
        t_ns = (_days_since_1970(year, month, day) * 86400 + clock_s) * _SECOND_NS
        t_ns += fields[codes.FRACTION_NS]
    if not given and (t_ns == NO_TIME or t_ns > limit_ns):
        year -= 1
        if day > _days_in(year, month):
            return NO_TIME
        t_ns = (_days_since_1970(year, month, day) * 86400 + clock_s) * _SECOND_NS
        t_ns += fields[codes.FRACTION_NS]
    return t_ns


@njit
def _after_colours(buffer: Octets, at: int, end: int) -> int:
    """Go over what only tells a terminal how to write: ESC [ digits and semicolons, m."""
    while at + 1 < end and buffer[at] == 27 and buffer[at + 1] == 91:
        last = at + 2
        while last < end and (_is_digit(buffer[last]) or buffer[last] == 59):
            last += 1
        if last >= end or buffer[last] != 109:
            return at
        at = last + 1
    return at


@njit
def _after_prefix(buffer: Octets, at: int, end: int) -> int:  # noqa: C901, PLR0911 - compiled
    """Go over `[rank3]: `, `[default0]:`, `3: ` (srun -l), `[1,0]<stdout>:` (mpirun), colours."""
    at = _after_colours(buffer, at, end)
    start = at
    while at < end and at - start < 3 and buffer[at] == 32:  # srun -l pads the number
        at += 1
    if at >= end:
        return start
    if _is_digit(buffer[at]):
        while at < end and _is_digit(buffer[at]):
            at += 1
        if at + 1 < end and buffer[at] == 58 and buffer[at + 1] == 32:
            return at + 2
        return start
    if buffer[at] != 91:
        return start
    last = min(end, at + 24)
    while at < last and buffer[at] != 93:
        at += 1
    if at >= last or not _is_digit(buffer[at - 1]):
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
