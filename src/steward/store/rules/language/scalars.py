"""Scalars: numbers, booleans, and durations as Go writes them."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from steward.errors import StewardError

__all__ = ["duration_ns", "finite", "flag", "whole"]

UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # the micro sign
    "μs": 1_000,  # the Greek letter, which looks the same
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
LONGEST_NS = (1 << 63) - 1
FORMS = "300ms, 30s, 1.5h, 1m30s; units are ns, us, ms, s, m, h"
YES = frozenset({"true", "yes", "on", "y"})
NO = frozenset({"false", "no", "off", "n"})
_PART = re.compile(r"([0-9]{1,32}(?:\.[0-9]{0,32})?|\.[0-9]{1,32})([^0-9.+\-\s]+)")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


def duration_ns(text: str) -> int:
    """Return a duration in nanoseconds, cut towards zero.

    >>> duration_ns("1m30s"), duration_ns("-.5us"), duration_ns("0")
    (90000000000, -500, 0)
    """
    sign = -1 if text.startswith("-") else 1
    left = text[1:] if text[:1] in ("-", "+") else text
    if left == "0":
        return 0
    parts = [(match[1], match[2]) for match in _PART.finditer(left)]
    if not left or "".join(number + unit for number, unit in parts) != left:
        raise StewardError(f"'{_short(text)}' is no duration", hint=_hint(left))
    if unknown := next((unit for _, unit in parts if unit not in UNITS_NS), ""):
        problem = f"'{_short(text)}' has a unit '{_short(unknown)}'"
        raise StewardError(problem, hint=_hint(left))
    total = sum(_ns(number, unit) for number, unit in parts)
    if total > LONGEST_NS:
        raise StewardError(f"'{_short(text)}' is longer than 292 years")
    return sign * total


def _ns(number: str, unit: str) -> int:
    before, _, after = number.partition(".")
    return int(Fraction(f"{before or 0}.{after or 0}") * UNITS_NS[unit])


def _hint(text: str) -> str:
    if text.isdigit():
        return f"a unit is missing: did you mean '{_short(text)}s'? write {FORMS}"
    if re.fullmatch(r"[0-9]+d", text):
        return f"days are not a unit: did you mean '{int(text[:-1][:9]) * 24}h'? write {FORMS}"
    return f"write {FORMS}"


def whole(text: str) -> int | None:
    """Return a whole number, or None."""
    return int(text) if _WHOLE.fullmatch(text) else None


def finite(text: str) -> float | None:
    """Return a finite number, or None."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def flag(text: str) -> bool | None:
    """Return a boolean, or None."""
    word = text.lower()
    return True if word in YES else False if word in NO else None


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "…"
