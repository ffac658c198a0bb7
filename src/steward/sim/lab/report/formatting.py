"""How figures of the lab read as text."""

from __future__ import annotations

from math import isfinite

__all__ = ["between", "count", "number", "percent", "span"]

_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def span(seconds: float) -> str:
    """Write a length of time in its largest unit.

    >>> span(90), span(7200), span(0)
    ('1.5 min', '2 h', '0 s')
    """
    if not isfinite(seconds):
        return "-"
    size, unit = next((each for each in _UNITS if abs(seconds) >= each[0]), _UNITS[-1])
    return f"{number(seconds / size)} {unit}"


def between(low: float, high: float) -> str:
    """Write a range of times, the unit once.

    >>> between(90, 240)
    '1.5 … 4 min'
    """
    if not (isfinite(low) and isfinite(high)):
        return ""
    size, unit = next((each for each in _UNITS if abs(high) >= each[0]), _UNITS[-1])
    return f"{number(low / size)} … {number(high / size)} {unit}"


def number(value: float) -> str:
    """Write a figure with three digits that count, and thousands apart.

    >>> number(0.01234), number(12345.6), number(3.0)
    ('0.0123', '12,346', '3')
    """
    if not isfinite(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def percent(share: float) -> str:
    """Write a share of 0..1; close to all or nothing, digits are kept.

    >>> percent(0.5), percent(0.99712), percent(1.0)
    ('50.0 %', '99.71 %', '100 %')
    """
    if not isfinite(share):
        return "-"
    if share in (0.0, 1.0):
        return f"{share:.0%}".replace("%", " %")
    return f"{share * 100:.2f} %" if share > 0.99 else f"{share * 100:.1f} %"


def count(many: float, thing: str) -> str:
    """Write how many there are of a thing.

    >>> count(1, "job"), count(1200, "job")
    ('1 job', '1,200 jobs')
    """
    return f"{number(many)} {thing}" + ("" if many == 1 else "s")
