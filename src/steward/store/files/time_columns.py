"""Times of a file: numbers since 1970 in any unit, or dates, as seconds."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

__all__ = ["LAST_S", "seconds", "time_column"]

LAST_S = 253_402_300_800.0  # the year 10000: no calendar goes further
_NAMES = ("t_s", "t", "ts", "timestamp", "unix_time", "epoch", "time", "datetime", "date", "time_s")
_UNIT = re.compile(r"(?:_|\(|\[|\s)(ns|us|ms|s)\)?\]?$")
_PER_S = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_SIZES = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))  # a number above it counts so many a second
_DATES = ("%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f%#z")
_PLAIN_DATES = (
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y/%m/%d %H:%M:%S%.f",
    "%d/%m/%Y %H:%M:%S%.f",
    "%Y-%m-%d",
)


def time_column(columns: Sequence[str]) -> str | None:
    """Return which column holds the time, if one is called so."""
    plain = {
        _UNIT.sub("", name.strip().lower()) or name.lower(): name for name in reversed(columns)
    }
    plain |= {name.strip().lower(): name for name in reversed(columns)}
    begins = (name for name in columns if name.strip().lower().startswith(("time", "date")))
    return next((plain[name] for name in _NAMES if name in plain), next(begins, None))


def seconds(values: pl.Series) -> pl.Series:
    """Return seconds since 1970; null if a time cannot be parsed. No zone means UTC."""
    if values.dtype in (pl.Datetime, pl.Date):
        return values.cast(pl.Datetime("us")).dt.epoch("us") / 1e6
    if values.dtype.is_numeric():
        text, numbers = values, values.cast(pl.Float64)
    else:
        text = values.cast(pl.String).str.strip_chars()
        numbers = text.cast(pl.Float64, strict=False)
    if numbers.null_count() == len(numbers) and not values.dtype.is_numeric():
        numbers = _dates(text)
    else:
        numbers = numbers * (1.0 / _per_s(values.name, numbers))
    finite = pl.when(pl.col("t").is_finite()).then(pl.col("t"))
    return pl.DataFrame({"t": numbers}).select(finite).to_series()


def _per_s(name: str, numbers: pl.Series) -> float:
    unit = _UNIT.search(name.strip().lower())
    if unit and name.strip().lower() not in _NAMES:
        return _PER_S[unit[1]]
    middle = abs(float(numbers.drop_nans().median() or 0.0))  # type: ignore[arg-type]
    return next((per_s for above, per_s in _SIZES if middle > above), 1.0)


def _dates(text: pl.Series) -> pl.Series:
    found = pl.Series(values=[None] * len(text), dtype=pl.Float64)
    readings = [text.str.to_datetime(each, strict=False, time_unit="us") for each in _PLAIN_DATES]
    zoned = text.str.replace("Z$", "+00:00")
    readings += [zoned.str.to_datetime(each, strict=False, time_unit="us") for each in _DATES]
    for reading in readings:
        if reading.null_count() < len(reading):
            epoch = reading.dt.epoch("us") / 1e6
            found = pl.select(pl.coalesce(found, epoch)).to_series()
    return found
