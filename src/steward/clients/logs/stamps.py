"""Finds when a line was written, from how it begins: ISO 8601 or classic syslog."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

__all__ = ["iso_s", "stamp_s"]

_MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}
_AHEAD_S = 86400.0  # a clock may be wrong by a time zone; a line from next week is not a time


def iso_s(text: str) -> float | None:
    """Return the seconds since 1970 of an ISO 8601 time; without a zone it is local time.

    >>> iso_s("2023-10-06T00:17:09.669794202Z")
    1696551429.669794
    """
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def stamp_s(text: str, now_s: float) -> float | None:
    """Return the time at the beginning of a line; None where there is none.

    A time in the future is ignored.
    """
    first = text[:1]
    if first.isdigit():
        stamp_s = _iso_led(text)
    elif first == "[":
        stamp_s = _iso_led(text[1:50].partition("]")[0])
    elif text[:3] in _MONTHS:
        stamp_s = _syslog_s(text[:15], now_s // _AHEAD_S * _AHEAD_S)
    else:
        return None
    return stamp_s if stamp_s is not None and 0.0 < stamp_s <= now_s + _AHEAD_S else None


def _iso_led(text: str) -> float | None:
    if text[4:5] != "-" or text[7:8] != "-" or text[13:14] != ":":
        return None
    apart = text[10] == " "  # date and time, as Python's logging writes them
    if apart and text[23:24] == " " and text[20:23].isdecimal():
        second_s = _local_s(text[:19])
        return None if second_s is None else second_s + int(text[20:23]) / 1000.0
    end = text.find(" ", 11 if apart else 10, 50)
    return iso_s((text[:end] if end > 0 else text[:50]).rstrip(",:"))


@lru_cache(maxsize=256)
def _local_s(stamp: str) -> float | None:
    """Read a time to the second: lines come many to a second, so the last answers are kept."""
    return iso_s(stamp)


@lru_cache(maxsize=256)
def _syslog_s(stamp: str, now_s: float) -> float | None:
    """Read `May 19 07:08:57`: it has no year, so the latest one that is not ahead is meant.

    `now_s` need only be of the day.
    """
    this_year = datetime.fromtimestamp(now_s, UTC).year
    for year in (this_year + 1, this_year, this_year - 1):
        stamp_s = _in_year(stamp, year)
        if stamp_s is not None and stamp_s <= now_s + 2 * _AHEAD_S:
            return stamp_s
    return None


def _in_year(stamp: str, year: int) -> float | None:
    month, day, clock = _MONTHS[stamp[:3]], stamp[4:6].strip(), stamp[7:15]
    return iso_s(f"{year:04d}-{month:02d}-{day:0>2}T{clock}")
