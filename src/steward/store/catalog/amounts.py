"""Amounts with their units, read and written without rounding."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from steward.errors import StewardError

__all__ = ["amount", "read_size", "read_tera", "read_time", "size_text", "tera_text", "time_text"]

_SIZES = {
    "B": 1,
    **{f"{prefix}B": 1000**power for power, prefix in enumerate("kMGTP", 1)},
    **{f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGTP", 1)},
}
_TIMES = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_SIZE_FORMS = "write 160 GB, 4.2 GB or 256 GiB; units are " + ", ".join(_SIZES)
_TIME_FORMS = "write 90 s, 30 m, 48 h or 7 d"
_AMOUNT = re.compile(
    r"(?P<number>[0-9]{1,32}(?:\.[0-9]{0,400})?(?:[eE][+-]?[0-9]{1,3})?) ?(?P<unit>[A-Za-z]*)"
)
_MOST = 10**30


def amount(text: str) -> tuple[Fraction, str] | None:
    """Return a number and its unit, which may be missing; None for anything else.

    >>> amount("4.2 GB"), amount("7"), amount("-1 GB")
    ((Fraction(21, 5), 'GB'), (Fraction(7, 1), ''), None)
    """
    found = _AMOUNT.fullmatch(text.strip())
    return (Fraction(found["number"]), found["unit"]) if found else None


def read_size(text: str) -> Fraction:
    """Return bytes."""
    return _read(text, _SIZES, what="a size", forms=_SIZE_FORMS)


def read_time(text: str) -> float:
    """Return seconds.

    >>> read_time("1.5h"), read_time("7 d")
    (5400.0, 604800.0)
    """
    return float(_read(text, _TIMES, what="a time", forms=_TIME_FORMS))


def read_tera(text: str) -> float:
    """Return a number that is written in 10^12."""
    return float(_read(text, {"": 10**12}, what="a number", forms="write 989 or 19.5"))


def _read(text: str, units: dict[str, int], *, what: str, forms: str) -> Fraction:
    found = amount(text)
    if found is None:
        raise StewardError(f"'{_short(text)}' is not {what}", hint=forms)
    number, unit = found
    if unit not in units:
        wrong = f"has a unit '{_short(unit)}'" if unit else "has no unit"
        raise StewardError(f"'{_short(text)}' {wrong}", hint=forms)
    if number * units[unit] > _MOST:
        raise StewardError(f"'{_short(text)}' is more than there is", hint=forms)
    return number * units[unit]


def size_text(value: float) -> str:
    """Return bytes with the unit that a person would choose, exactly.

    >>> size_text(4_200_000_000), size_text(2**38), size_text(123_456_789_012)
    ('4.2 GB', '256 GiB', '123456789012 B')
    """
    exact = Decimal(repr(value))
    gigabytes = exact.scaleb(-9)
    if _is_short(gigabytes):
        return f"{_plain(gigabytes)} GB"
    if value % 2**20 == 0:
        unit = "GiB" if value % 2**30 == 0 else "MiB"
        return f"{int(value) // _SIZES[unit]} {unit}"
    return f"{_plain(exact)} B"


def time_text(value_s: float) -> str:
    """Return seconds with a unit, exactly.

    >>> time_text(172_800.0), time_text(900.0), time_text(0.1)
    ('48 h', '15 m', '0.1 s')
    """
    for unit in ("h", "m"):
        number, rest = divmod(value_s, _TIMES[unit])
        if not rest and 0 < number < 1e9:
            return f"{int(number)} {unit}"
    return f"{_plain(Decimal(repr(value_s)))} s"


def tera_text(value: float) -> str:
    """Return a number in 10^12, exactly.

    >>> tera_text(19.5e12)
    '19.5'
    """
    return _plain(Decimal(repr(value)).scaleb(-12))


def _is_short(number: Decimal) -> bool:
    return number == number.quantize(Decimal("0.001")) if number < 10**12 else False


def _plain(number: Decimal) -> str:
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "…"
