"""How times, figures and curves read as text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from math import isfinite

from steward.errors import StewardError
from steward.model.yardstick import YARDSTICKS

__all__ = [
    "ago",
    "gpu_hours",
    "in_unit",
    "log_time",
    "moment",
    "moment_ago",
    "number",
    "precise_moment",
    "seconds",
    "short_number",
    "span",
    "sparkline",
]

BARS = "▁▂▃▄▅▆▇█"
HOUR_S = 3600.0
_LENGTHS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": HOUR_S, "d": 24 * HOUR_S}
_LENGTH = re.compile(rf"(\d+(?:\.\d+)?)\s*({'|'.join(_LENGTHS)})?")
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def moment(t_s: float) -> str:
    """Write a time as local ISO 8601, to the second."""
    try:
        return datetime.fromtimestamp(t_s, tz=UTC).astimezone().isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return "an unknown time"


def precise_moment(t_s: float) -> str:
    """Write a time as local ISO 8601, to the millisecond."""
    try:
        return datetime.fromtimestamp(t_s, tz=UTC).astimezone().isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{t_s:.3f}"


def log_time(t_s: float) -> str:
    """Write a time that a log gave; lines without one have none, only an order.

    >>> log_time(0.002), log_time(812658.4)
    ('no time', '812,658.4 s after start')
    """
    if t_s >= 10 * 365 * 86400.0:
        return moment(t_s)
    return f"{t_s:,.1f} s after start" if t_s >= 1.0 else "no time"


def seconds(text: str, *, where: str) -> float:
    """Read a length of time as people write it; a bare number is seconds.

    >>> seconds("100ms", where="--every"), seconds("1.5h", where="--for"), seconds("10", where="")
    (0.1, 5400.0, 10.0)
    """
    match = _LENGTH.fullmatch(text.strip().lower())
    if match is None:
        raise StewardError(
            f"'{text}' is not a length of time",
            where=where,
            hint="write a number and a unit: 100ms, 60s, 5min, 2h, 7d",
        )
    return float(match[1]) * _LENGTHS[match[2] or "s"]


def span(seconds: float) -> str:
    """Write a length of time in its largest unit.

    >>> span(90), span(7200), span(0.2)
    ('1.5 min', '2 h', '0.2 s')
    """
    if not isfinite(seconds):
        return "an unknown time"
    size, unit = next((each for each in _UNITS if abs(seconds) >= each[0]), _UNITS[-1])
    return f"{seconds / size:.1f}".removesuffix(".0") + f" {unit}"


def ago(t_s: float, now_s: float) -> str:
    """Write a time as seen from now."""
    if not isfinite(t_s):
        return "at an unknown time"
    return f"{span(now_s - t_s)} ago" if t_s <= now_s else f"in {span(t_s - now_s)}"


def moment_ago(t_s: float, now_s: float) -> str:
    """Write a time both ways."""
    return f"{moment(t_s)} ({ago(t_s, now_s)})"


def number(value: float) -> str:
    """Write a figure with three digits that count, and thousands apart.

    >>> number(0.01234), number(12345.6), number(3.0)
    ('0.0123', '12,346', '3')
    """
    if not isfinite(value):
        return "unknown"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def short_number(value: float) -> str:
    """Write a figure where there is room for a few letters only.

    >>> short_number(6e10), short_number(1500.0), short_number(0.25), short_number(-2e6)
    ('60 G', '1.5 k', '0.25', '-2 M')
    """
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size <= abs(value) < 1000 * size:
            return f"{value / size:.3g} {letter}"
    return f"{value:.3g}"


def gpu_hours(gpu_seconds: float) -> str:
    """Write GPU-seconds as people count them."""
    return f"{number(gpu_seconds / HOUR_S)} GPU-hours"


def in_unit(value: float, yardstick: str) -> tuple[float, str]:
    """Return a figure of a yardstick, and its unit; GPU time in hours.

    >>> in_unit(-5400.0, "stop-cost")
    (-1.5, 'GPU-hours')
    """
    unit = YARDSTICKS[yardstick].unit
    return (value / HOUR_S, "GPU-hours") if unit == "GPU-seconds" else (value, unit)


def sparkline(values: Sequence[float | None], *, width: int = 60) -> str:
    """Draw values as a line of bars from the smallest to the largest; unknown ones are blank.

    >>> sparkline([0.0, 0.5, None, 1.0])
    '▁▅ █'
    """
    cells = _cells(_tamed(values), width)
    known = [cell for cell in cells if cell is not None]
    low = min(known, default=0.0)
    height = max(known, default=0.0) - low
    return "".join(" " if cell is None else _bar(cell - low, height) for cell in cells)


def _bar(above: float, height: float) -> str:
    return BARS[round(above / height * (len(BARS) - 1)) if height > 0 else 0]


def _tamed(values: Sequence[float | None]) -> list[float | None]:
    """Return values between -1 and 1, whatever they were: then no sum of them overflows."""
    known = [value if value is not None and isfinite(value) else None for value in values]
    largest = max((abs(value) for value in known if value is not None), default=0.0) or 1.0
    return [None if value is None else value / largest for value in known]


def _cells(values: list[float | None], width: int) -> list[float | None]:
    if len(values) <= width:
        return values
    edges = [round(i * len(values) / width) for i in range(width + 1)]
    return [_mean(values[a:b]) for a, b in pairwise(edges)]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
