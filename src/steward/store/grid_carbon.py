"""Read carbon intensity by the hour, and forecasts of it, from CSV files of many regions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from steward.errors import StewardError
from steward.model.planning.carbon import HOUR_S, CarbonSeries, IssuedForecasts

__all__ = ["read_carbon", "read_forecasts"]

_ACTUAL = ("region", "hour_utc", "grams_per_kwh")
_ISSUED = ("region", "issued_utc", "hour_utc", "forecast_g_per_kwh")
_LONGEST_GAP_H = 6  # that is filled by a line
_MOST_AHEAD_H = 24 * 14


def read_carbon(path: Path, forecasts: Path | None = None) -> tuple[CarbonSeries, ...]:
    """Return the series of each region, by name. An hour that comes twice counts by its last row.

    Gaps of up to six hours are filled; a longer one begins the series anew, as its end is what
    forecasts are about.
    """
    table = _read(path, _ACTUAL).with_columns(_hour("hour_utc", path))
    issued = read_forecasts(forecasts) if forecasts is not None else None
    found = []
    for (region,), rows in table.group_by("region", maintain_order=True):
        series = _series(str(region), rows, path)
        if issued is not None:
            series = replace(series, forecasts=_of_series(issued, series))
        found.append(series)
    if not found:
        raise StewardError(
            "there are no rows", where=str(path), hint=f"columns: {_listed(_ACTUAL)}"
        )
    return tuple(sorted(found, key=lambda each: each.region))


def read_forecasts(path: Path) -> pl.DataFrame:
    """Return forecasts by region, hour of issue and hour (both since 1970)."""
    table = _read(path, _ISSUED)
    return table.with_columns(_hour("issued_utc", path), _hour("hour_utc", path))


def _read(path: Path, needed: tuple[str, ...]) -> pl.DataFrame:
    if not path.is_file():
        raise StewardError("there is no such file", where=str(path), hint="a CSV, gzip is fine")
    try:
        table = pl.read_csv(path, infer_schema_length=None)
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        raise StewardError(
            f"it cannot be read as CSV: {error}",
            where=str(path),
            hint=f"columns: {_listed(needed)}",
        ) from error
    missing = [name for name in needed if name not in table.columns]
    if missing:
        raise StewardError(
            f"it has no column {_listed(missing)}; it has {_listed(table.columns)}",
            where=str(path),
            hint=f"needed: {_listed(needed)}",
        )
    value = needed[-1]
    number = pl.col(value).cast(pl.String).str.strip_chars().cast(pl.Float64, strict=False)
    text = pl.col(value).cast(pl.String).str.strip_chars()
    wrong = table.filter(number.is_null() & text.is_not_null() & (text != ""))
    if len(wrong):
        raise StewardError(
            f"{value} is {wrong[value][0]!r} in {len(wrong)} rows, which is no number",
            where=str(path),
            hint="leave it empty where it is unknown",
        )
    return table.select(*needed[:-1], number.alias(value)).filter(
        pl.col(value).is_not_null() & pl.col(value).is_finite()
    )


def _hour(column: str, path: Path) -> pl.Series | pl.Expr:
    """Return an expression of hours since 1970; text that is no time is refused when it is read."""
    return (
        pl.col(column)
        .cast(pl.String)
        .map_batches(lambda text: _hours(text, column, path), return_dtype=pl.Int64)
    )


def _hours(text: pl.Series, column: str, path: Path) -> pl.Series:
    parsed = text.str.replace(r"(Z|[+-]00:?00)$", "").str.replace("T", " ")
    times = parsed.str.to_datetime(strict=False, time_unit="ms", format="%Y-%m-%d %H:%M")
    times = times.fill_null(
        parsed.str.to_datetime(strict=False, time_unit="ms", format="%Y-%m-%d %H:%M:%S")
    )
    if times.null_count():
        wrong = text.filter(times.is_null())
        raise StewardError(
            f"{column} is {wrong[0]!r} in {len(wrong)} rows",
            where=str(path),
            hint="write times in UTC, as 2026-01-31T13:00Z",
        )
    return times.dt.timestamp("ms") // 3_600_000


def _series(region: str, rows: pl.DataFrame, path: Path) -> CarbonSeries:
    rows = rows.unique("hour_utc", keep="last").sort("hour_utc")
    hours, grams = rows["hour_utc"].to_numpy(), rows["grams_per_kwh"].to_numpy()
    if np.any(grams < 0):
        raise StewardError(
            f"region {region} has {int((grams < 0).sum())} negative intensities",
            where=str(path),
            hint="grams per kWh are 0 or more",
        )
    breaks = np.nonzero(np.diff(hours) > _LONGEST_GAP_H + 1)[0]
    first = int(breaks[-1]) + 1 if len(breaks) else 0
    hours, grams = hours[first:], grams[first:]
    every = np.arange(hours[0], hours[-1] + 1)
    return CarbonSeries(
        region=region,
        begin_s=float(hours[0]) * HOUR_S,
        grams=np.interp(every, hours, grams),
        filled=len(every) - len(hours),
    )


def _of_series(issued: pl.DataFrame, series: CarbonSeries) -> IssuedForecasts | None:
    begin_h = int(series.begin_s // HOUR_S)
    mine = issued.filter(pl.col("region") == series.region).unique(
        ["issued_utc", "hour_utc"], keep="last"
    )
    ahead = mine["hour_utc"].to_numpy() - mine["issued_utc"].to_numpy()
    usable = (ahead >= 0) & (ahead < _MOST_AHEAD_H)
    if not usable.any():
        return None
    mine, ahead = mine.filter(pl.Series(usable)), ahead[usable]
    times, row = np.unique(mine["issued_utc"].to_numpy(), return_inverse=True)
    grams = np.full((len(times), int(ahead.max()) + 1), np.nan)
    grams[row, ahead] = mine["forecast_g_per_kwh"].to_numpy()
    return IssuedForecasts(issued_h=(times - begin_h).astype(np.int64), grams=grams)


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:12]) or "none"
