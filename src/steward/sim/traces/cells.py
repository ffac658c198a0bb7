"""What a cell means: numbers, names, times and spans, whatever way they are written.

Every function gives an expression over columns of words. A number is null where the cell says
"not known" and NaN where it says something that is no number, so that both can be reported.
"""

from __future__ import annotations

import math

import polars as pl

from steward.sim.traces.table import TraceTable

__all__ = [
    "clock_s",
    "cut_off",
    "divided",
    "iso_s",
    "missing",
    "number",
    "span_s",
    "text",
    "time_s",
    "zoned",
]

_UNKNOWN = ("", "-", "?", "nan", "null", "none", "na", "n/a", "unknown", "nil", "none assigned")
_CLOCK = r"^(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)$"  # [days-][hours:]minutes:seconds
_DATE = r"^\d{4}[-/]\d{1,2}[-/]\d{1,2}"
_OFFSET = r"(Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)$"


def _word(column: str) -> pl.Expr:
    return pl.col(column).str.strip_chars()


def missing(column: str) -> pl.Expr:
    """Say where a cell is empty, or says in words that it is."""
    word = _word(column)
    return word.is_null() | word.str.to_lowercase().is_in(_UNKNOWN)


def text(column: str) -> pl.Expr:
    """Return names; null where there is none."""
    return pl.when(~missing(column)).then(_word(column))


def number(column: str, *, scale: float = 1.0) -> pl.Expr:
    """Return numbers, times `scale`; null where missing, NaN where it is no number."""
    return _checked(column, _word(column).cast(pl.Float64, strict=False), scale=scale)


def divided(column: str, *, by: float) -> pl.Expr:
    """Return numbers counted in a smaller unit: dividing is exact where scaling is not."""
    return number(column) / by


def time_s(table: TraceTable, column: str, *, scale: float = 1.0) -> pl.Expr:
    """Return times as seconds from some start, from numbers or from dates."""
    return iso_s(column) if _mostly(table, column, _DATE) else number(column, scale=scale)


def zoned(table: TraceTable, column: str) -> pl.Expr | None:
    """Say which dates carry a zone; None where times are numbers."""
    if not _mostly(table, column, _DATE):
        return None
    return _word(column).str.contains(r":.*" + _OFFSET)


def span_s(table: TraceTable, column: str, *, scale: float = 1.0) -> pl.Expr:
    """Return spans of time in seconds, from numbers or from clock form."""
    return clock_s(column) if _mostly(table, column, _CLOCK) else number(column, scale=scale)


def clock_s(column: str) -> pl.Expr:
    """Return seconds of `[days-][hours:]minutes:seconds`."""
    word = _word(column)
    parts = [word.str.extract(_CLOCK, i).cast(pl.Float64) for i in range(1, 5)]
    days, hours, minutes, seconds = parts[0].fill_null(0), parts[1].fill_null(0), parts[2], parts[3]
    return _checked(column, days * 86400 + hours * 3600 + minutes * 60 + seconds)


def iso_s(column: str) -> pl.Expr:
    """Return seconds since 1970 of a date; one without a zone is taken as UTC."""
    word = (
        _word(column).str.replace(r"^([\d/-]+)[Tt]", "$1 ").str.replace_all("/", "-", literal=True)
    )
    offset = pl.when(word.str.contains(":", literal=True)).then(word.str.extract(_OFFSET, 1))
    plain = pl.when(offset.is_null()).then(word).otherwise(word.str.replace(r"\s*" + _OFFSET, ""))
    forms = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%d")
    moment = pl.coalesce(
        plain.str.to_datetime(forms[0], strict=False, time_unit="us"),
        plain.str.to_datetime(forms[1], strict=False, time_unit="us"),
        plain.str.to_date(forms[2], strict=False).cast(pl.Datetime("us")),
    )
    return _checked(column, moment.dt.epoch("us") / 1e6 - _offset_s(offset))


def _offset_s(offset: pl.Expr) -> pl.Expr:
    sign = pl.when(offset.str.starts_with("-")).then(-1.0).otherwise(1.0)
    hours = offset.str.extract(r"^[+-](\d{2})", 1).cast(pl.Float64).fill_null(0.0)
    minutes = offset.str.extract(r"^[+-]\d{2}:?(\d{2})$", 1).cast(pl.Float64).fill_null(0.0)
    return sign * (hours * 3600.0 + minutes * 60.0)


def _checked(column: str, value: pl.Expr, *, scale: float = 1.0) -> pl.Expr:
    finite = pl.when(value.is_finite()).then(value).otherwise(math.nan)
    return pl.when(~missing(column)).then(finite * scale if scale != 1.0 else finite)


def _mostly(table: TraceTable, column: str, form: str) -> bool:
    cells = table.sample[column].drop_nulls().str.strip_chars()
    return len(cells) > 0 and 2 * int(cells.str.contains(form).sum()) > len(cells)


def cut_off(column: str) -> pl.Expr:
    """Return 1 where a state says that a job would have gone on: cancelled, out of time, memory.

    That a node or the job itself failed is an end like any other: 0.
    """
    state = pl.col(column).str.to_uppercase()
    return state.str.contains("^(CANCELLED|TIMEOUT|DEADLINE|OUT_OF_ME|PREEMPTED)").cast(pl.Float64)
