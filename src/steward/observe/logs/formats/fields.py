"""The compiled readers of the parts of a time: digits, dates, clocks, zones, seconds since 1970."""

from __future__ import annotations

import numpy as np

from steward.compiled import njit
from steward.observe.logs.formats import codes
from steward.observe.logs.formats.codes import Ints, Octets

__all__ = [
    "clock",
    "date",
    "days_in",
    "days_since_1970",
    "digits",
    "epoch",
    "fraction",
    "half",
    "is_blank",
    "is_digit",
    "month",
    "padded",
    "seconds",
    "zone",
]

_DAYS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)
_NAMES = np.frombuffer(b"janfebmaraprmayjunjulaugsepoctnovdec", np.uint8)
_SECOND_NS = 1_000_000_000
_CUT = 9_223_372_036  # seconds beyond this do not fit into nanoseconds: the unit is a smaller one
_LAST_S = 9_223_372_035


@njit
def days_since_1970(year: int, month: int, day: int) -> int:
    """Return the day of a date, counted from 1970-01-01."""
    if month <= 2:
        year -= 1
        month += 12
    return (
        365 * year + year // 4 - year // 100 + year // 400 + (153 * month - 457) // 5 + day - 719469
    )


@njit
def days_in(year: int, month: int) -> int:
    """Return how many days a month has."""
    if month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
        return 29
    return int(_DAYS[month - 1])


@njit
def is_digit(octet: int) -> bool:
    """Return whether it is one of 0 to 9."""
    return 48 <= octet <= 57


@njit
def is_blank(octet: int) -> bool:
    """Return whether it is a space or a tab."""
    return octet == 32 or octet == 9  # noqa: PLR1714 - compiled


@njit
def zone(  # noqa: C901, PLR0911 - compiled: one look
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
    if start + 4 >= end or not (is_digit(buffer[start + 1]) and is_digit(buffer[start + 2])):
        if (
            start + 2 < end
            and start == at
            and ways & codes.ZONE_MAYBE
            and is_digit(buffer[start + 1])
            and is_digit(buffer[start + 2])
        ):
            return _offset(buffer, start, -1, fields)
        return missing
    colon = buffer[start + 3] == 58
    minutes = start + 4 if colon else start + 3
    if minutes + 1 >= end or not (is_digit(buffer[minutes]) and is_digit(buffer[minutes + 1])):
        if start == at and ways & codes.ZONE_MAYBE:
            return _offset(buffer, start, -1, fields)  # `+00`, as PostgreSQL writes it
        return missing
    if not ways & (codes.ZONE_COLON if colon else codes.ZONE_PLAIN):
        return missing
    if start > at and minutes + 2 < end and is_digit(buffer[minutes + 2]):
        return missing  # a number, not a zone
    return _offset(buffer, start, minutes, fields)


@njit
def _offset(buffer: Octets, start: int, minutes: int, fields: Ints) -> int:
    # `int` is what the compiler does anyway, so that it is the same where nothing is compiled.
    hours = (int(buffer[start + 1]) - 48) * 10 + int(buffer[start + 2]) - 48
    offset_s = hours * 3600
    after = start + 3
    if minutes >= 0:
        offset_s += ((int(buffer[minutes]) - 48) * 10 + int(buffer[minutes + 1]) - 48) * 60
        after = minutes + 2
    fields[codes.ZONE_S] = -offset_s if buffer[start] == 45 else offset_s
    return after


@njit
def fraction(buffer: Octets, at: int, end: int, digits: int, fields: Ints) -> int:
    """Read a fraction of that many digits, or of all there are; return where it ends, or -1."""
    value, scale, read = np.int64(0), np.int64(100_000_000), 0
    while at < end and is_digit(buffer[at]) and (digits == 0 or read < digits):
        value += (buffer[at] - 48) * scale
        scale //= 10
        at += 1
        read += 1
    if read == 0 or (digits > 0 and read < digits):
        return -1
    fields[codes.FRACTION_NS] = value
    return at


@njit
def _whole(buffer: Octets, at: int, end: int) -> tuple[np.int64, int]:
    """Read a whole number; return it and how many digits it has, -1 if it fits in no 64 bits."""
    value, read = np.int64(0), 0
    while at + read < end and read < 19 and is_digit(buffer[at + read]):
        if value > 922_337_203_685_477_580:
            return value, -1
        value = value * 10 + (buffer[at + read] - 48)
        read += 1
    return value, -1 if value < 0 else read


@njit
def epoch(buffer: Octets, at: int, end: int, unit_ns: int, fewest: int, fields: Ints) -> int:
    """Read a time since 1970, in a unit or in that which fits; return its end, or -1."""
    value, read = _whole(buffer, at, end)
    if read < max(fewest, 1):
        return -1
    at += read
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
def seconds(buffer: Octets, at: int, end: int, must: int, fewest: int, fields: Ints) -> int:
    """Read seconds with perhaps a fraction; whole ones that are too large have smaller units."""
    value, read = _whole(buffer, at, end)
    if read < max(fewest, 0):
        return -1
    at += read
    if at + 1 < end and buffer[at] == 46 and is_digit(buffer[at + 1]):
        if value > _LAST_S:
            return -1
        after = fraction(buffer, at + 1, end, 0, fields)
        fields[codes.EPOCH_NS] = value * _SECOND_NS + fields[codes.FRACTION_NS]
        return after
    if must:
        return -1
    return epoch(buffer, at - read, end, codes.ANY_UNIT, 1, fields)


@njit
def month(buffer: Octets, at: int, end: int, fields: Ints) -> int:
    """Read the first three letters of a month; return their end, or -1."""
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
def padded(buffer: Octets, at: int, end: int, field: int, fields: Ints) -> int:
    """Read one or two digits after perhaps a blank."""
    if at < end and buffer[at] == 32:
        at += 1
    if at >= end or not is_digit(buffer[at]):
        return -1
    value = np.int64(buffer[at] - 48)
    at += 1
    if at < end and is_digit(buffer[at]):
        value = value * 10 + (buffer[at] - 48)
        at += 1
    fields[field] = value
    return at


@njit
def digits(buffer: Octets, at: int, end: int, count: int) -> int:
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
def date(buffer: Octets, at: int, end: int, between: int, fields: Ints) -> int:
    """Read year, month and day with a sign between them; return their end, or -1."""
    if at + 10 > end or buffer[at + 4] != between or buffer[at + 7] != between:
        return -1
    year = _two(buffer, at) * 100 + _two(buffer, at + 2)
    month, day = _two(buffer, at + 5), _two(buffer, at + 8)
    if year < 0 or month < 0 or day < 0:
        return -1
    fields[codes.YEAR], fields[codes.MONTH], fields[codes.DAY] = year, month, day
    return at + 10


@njit
def clock(buffer: Octets, at: int, end: int, fields: Ints) -> int:
    """Read hour, minute and second; return their end, or -1."""
    if at + 8 > end or buffer[at + 2] != 58 or buffer[at + 5] != 58:
        return -1
    hour, minute, second = _two(buffer, at), _two(buffer, at + 3), _two(buffer, at + 6)
    if hour < 0 or minute < 0 or second < 0:
        return -1
    fields[codes.HOUR], fields[codes.MINUTE], fields[codes.SECOND] = hour, minute, second
    return at + 8


@njit
def half(buffer: Octets, at: int, end: int, fields: Ints) -> int:
    """Read `am` or `pm`; return its end, or -1."""
    if at + 2 > end or buffer[at + 1] | 32 != 109:
        return -1
    first = buffer[at] | 32
    if first not in (97, 112):
        return -1
    fields[codes.AFTERNOON] = 1 if first == 112 else 0
    return at + 2
