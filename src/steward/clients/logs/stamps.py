"""Finds when a line was written, from how it begins: ISO 8601 or classic syslog."""

from __future__ import annotations

from datetime import UTC, datetime

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
    """Return when a line says that it was written; None where it does not begin with a time.

    A time that lies ahead is not believed.
    """
    said = _leading(text, now_s)
    return said if said is not None and 0.0 < said <= now_s + _AHEAD_S else None


def _leading(text: str, now_s: float) -> float | None:
    first = text[:1]
    if first == "[":
        return _iso_led(text[1:].partition("]")[0])
    if first.isdigit():
        return _iso_led(text)
    return _syslog_s(text[:15], now_s) if text[:3] in _MONTHS else None


def _iso_led(text: str) -> float | None:
    if text[4:5] != "-" or text[7:8] != "-" or text[13:14] != ":":
        return None
    stamp = text.split(" ", 1)[0]
    if len(stamp) == 10:  # date and time are apart, as Python's logging writes them
        stamp = " ".join(text.split(" ", 2)[:2])
    return iso_s(stamp.rstrip(",:"))


def _syslog_s(stamp: str, now_s: float) -> float | None:
    """Read `May 19 07:08:57`: it has no year, so the latest one that is not ahead is meant."""
    this_year = datetime.fromtimestamp(now_s, UTC).year
    for year in (this_year + 1, this_year, this_year - 1):
        said = _in_year(stamp, year)
        if said is not None and said <= now_s + _AHEAD_S:
            return said
    return None


def _in_year(stamp: str, year: int) -> float | None:
    month, day, clock = _MONTHS[stamp[:3]], stamp[4:6].strip(), stamp[7:15]
    return iso_s(f"{year:04d}-{month:02d}-{day:0>2}T{clock}")
