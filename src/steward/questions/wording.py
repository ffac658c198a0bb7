"""How values are written in sentences. One place, so that the checker can read them back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import isfinite
from types import MappingProxyType

__all__ = ["clean", "duration", "moment", "number", "written"]

_LONGEST = 300  # characters of a text that somebody else wrote


def number(value: float) -> str:
    """Return a number with as many digits as matter.

    >>> number(1234.0), number(0.12345), number(12.34), number(-3.0)
    ('1,234', '0.12', '12.3', '-3')
    """
    if value == int(value):
        return f"{int(value):,}"
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:,.{digits}f}"


def duration(seconds: float) -> str:
    """Return a length of time in its two largest units.

    >>> duration(5), duration(192), duration(7500), duration(200_000)
    ('5 s', '3 min 12 s', '2 h 5 min', '2 d 7 h')
    """
    whole = round(max(seconds, 0.0))
    steps = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
    for place, (unit, size) in enumerate(steps):
        if whole >= size or size == 1:
            first, rest = divmod(whole, size)
            if size == 1:
                return f"{first} s"
            small, least = steps[place + 1]
            more = rest // least
            return f"{first} {unit} {more} {small}" if more else f"{first} {unit}"
    raise AssertionError  # pragma: no cover - the last unit is one second


def moment(t_s: float) -> str:
    """Return a time in UTC, to the minute.

    >>> moment(1_700_000_000)
    '2023-11-14 22:13 UTC'
    """
    try:
        return f"{datetime.fromtimestamp(t_s, UTC):%Y-%m-%d %H:%M} UTC"
    except (OverflowError, OSError, ValueError):
        return f"second {t_s:.0f}"


def clean(text: str) -> str:
    """Return a text of others on one line, without control characters, and not endless."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _share(value: float) -> str:
    return f"{value * 100:.0f} %"


_WRITERS: Mapping[str, Callable[[float], str]] = MappingProxyType(
    {
        "s": duration,
        "time": moment,
        "share": _share,
        "celsius": lambda value: f"{value:.1f} °C",
        "watts": lambda value: f"{value:.1f} W",
        "bytes": lambda value: f"{value / 2**30:.1f} GiB",
        "": number,
    }
)


def written(value: str | float, unit: str) -> str:
    """Return a value as sentences have it.

    >>> written(0.25, "share"), written(1, "jobs"), written(2, "GPUs"), written("n1", "name")
    ('25 %', '1 job', '2 GPUs', 'n1')
    >>> written(float("nan"), "GPU-hours")
    'an unknown number'
    """
    if isinstance(value, str):
        return clean(value)
    if not isfinite(value):
        return "an unknown number"
    if unit in _WRITERS:
        return _WRITERS[unit](value)
    name = unit[:-1] if value == 1 and unit.endswith("s") else unit
    return f"{number(value)} {name}"
