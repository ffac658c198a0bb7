"""Histories of failures from tables: of stays with an event at their end, or of events alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from steward.errors import StewardError
from steward.learn.failures.history import FailureHistory, Ints

__all__ = ["read_history"]

_FROM = ("insert", "installed", "start", "begin", "from")
_TO = ("remove", "removed", "end", "to")
_UNIT = ("sn", "serial", "serial_number", "uuid", "gpu", "disk", "unit", "id")
_EVENT = ("event", "failure", "failed", "kind", "error")
_WHEN = ("timestamp", "time", "date", "t", "t_s", "datetime")
_NOTHING = ("", "na", "nan", "none", "null", "false", "0")
_ZONED = ("%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S%z", "%Y-%m-%dT%H:%M:%S%.f%z")
_LOCAL = (
    "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M",
    "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%Y-%m-%d", "%m/%d/%Y",
)  # fmt: skip
_FEWEST = 30  # failures; below that nothing can be learnt
_MOST_UNITS = 400_000
_MOST_PLACES = 5_000  # values of one kind of place
_CROSSED = 0.8  # of all combinations seen: what is missing does not exist
_DAY_S = 86_400.0
_LOCATION = r"([A-Za-z]+)(-?\d+)"


def read_history(file: Path) -> FailureHistory:
    """Read a table. All faults of the file are in one message."""
    table = _table(file)
    names = {name.strip().lower(): name for name in table.columns}
    begins, ends = _first(names, _FROM), _first(names, _TO)
    if begins and ends:
        history = _of_stays(table, names, (begins, ends), file)
    else:
        when = _first(names, _WHEN)
        if when is None:
            raise StewardError(
                f"there is no column of times; it has {', '.join(table.columns[:12])}",
                where=str(file),
                hint=f"name one '{_WHEN[0]}', or two, '{_FROM[0]}' and '{_TO[0]}', of stays",
            )
        history = _of_events(table, when, file)
    if len(history.event_s) < _FEWEST:
        raise StewardError(
            f"there are {len(history.event_s)} failures in it; at least {_FEWEST} are needed",
            where=str(file),
            hint="a rate with an interval is all that so few can give",
        )
    return history


def _table(file: Path) -> pl.DataFrame:
    try:
        if file.suffix == ".parquet":
            table = pl.read_parquet(file)
        else:
            table = pl.read_csv(file, infer_schema_length=0, truncate_ragged_lines=True)
    except (OSError, pl.exceptions.PolarsError) as fault:
        problem = f"it cannot be read as a table: {str(fault).splitlines()[0]}"
        raise StewardError(
            problem, where=str(file), hint="CSV or Parquet, a header first"
        ) from fault
    if table.is_empty():
        raise StewardError("there are no rows in it", where=str(file), hint="one row per failure")
    return table.with_columns(pl.all().cast(pl.String).str.strip_chars())


def _first(names: dict[str, str], wanted: Sequence[str]) -> str | None:
    return next((names[name] for name in wanted if name in names), None)


def _seconds(column: pl.Series) -> pl.Series:
    """Return times in seconds since 1970, null where none can be read; numbers are seconds."""
    found = column.cast(pl.Float64, strict=False)
    column = column.str.replace("Z$", "+0000")
    for form in (*_ZONED, *_LOCAL):
        if found.null_count() == column.null_count():
            break
        zone = "UTC" if form in _ZONED else None
        read = column.str.to_datetime(form, strict=False, time_zone=zone)
        seconds = read.dt.epoch("ms").cast(pl.Float64) / 1000.0
        found = found.fill_null(seconds)
    return found


def _left_out(count: int) -> str:
    return f"; {count:,} rows without a time that can be read are left out" if count else ""


def _codes(column: pl.Series) -> Ints:
    """Return a number per different value, -1 where there is none."""
    ranks = column.rank("dense").cast(pl.Int64) - 1
    return ranks.fill_null(-1).to_numpy().astype(np.int64)


# -- stays: who was where, from when to when, and how it ended ------------------------------------


def _of_stays(
    table: pl.DataFrame, names: dict[str, str], span: tuple[str, str], file: Path
) -> FailureHistory:
    unit, event = _first(names, _UNIT), _first(names, _EVENT)
    missing = [kind for kind, found in (("unit", unit), ("event", event)) if found is None]
    if missing or unit is None or event is None:
        raise StewardError(
            f"there is no column of {' and of '.join(missing)}s; it has {', '.join(table.columns)}",
            where=str(file),
            hint=f"units: {', '.join(_UNIT)}; events: {', '.join(_EVENT)}",
        )
    rows = len(table)
    table = table.with_columns(
        _begin=_seconds(table[span[0]]), _end=_seconds(table[span[1]])
    ).filter(pl.col("_end").is_not_null() & pl.col(unit).is_not_null())
    failed = pl.col(event).is_not_null() & ~pl.col(event).str.to_lowercase().is_in(_NOTHING)
    stays = table.filter(pl.col("_begin").is_not_null() & (pl.col("_end") >= pl.col("_begin")))
    known = table[unit].unique().sort()
    events = table.filter(failed).sort("_end")
    code = dict(zip(known.to_list(), range(len(known)), strict=True))
    others = [name for name in table.columns if name not in (unit, event, *span, "_begin", "_end")]
    place = _first({name.lower(): name for name in others}, ("location", "place", "node", "host"))
    return FailureHistory(
        units=tuple(known.to_list()),
        event_s=events["_end"].to_numpy(),
        event_unit=np.array([code[name] for name in events[unit]], np.int64),
        kinds=tuple(events[event].unique().sort().to_list()),
        event_kind=_codes(events[event]),
        stay_unit=np.array([code[name] for name in stays[unit]], np.int64),
        stay_from_s=stays["_begin"].to_numpy(),
        stay_to_s=stays["_end"].to_numpy(),
        unit_places=_batches(known),
        stay_places=_location_parts(stays[place]) if place else {},
        basis=f"{len(known):,} units with their stays ({span[0]} to {span[1]})"
        + _left_out(rows - len(table)),
    )


def _batches(units: pl.Series) -> dict[str, Ints]:
    """Return what the first letters of serial numbers tell: plant, year and week of make."""
    found: dict[str, Ints] = {}
    for letters in (5, 7):
        codes = _codes(units.str.slice(0, letters))
        if 1 < len(np.unique(codes)) <= _MOST_PLACES:
            found[f"first {letters} letters"] = codes
    return found


def _location_parts(locations: pl.Series) -> dict[str, Ints]:
    """Return the whole place, and what its parts say: of c3-2c1s4n0 each letter with its number."""
    found = {"place": _codes(locations)}
    parts = locations.str.extract_all(_LOCATION)
    most = int(parts.list.len().max() or 0)  # type: ignore[arg-type]
    for depth in range(most):
        found[f"part {depth + 1}"] = _codes(parts.list.get(depth, null_on_oob=True))
        if depth:
            prefix = parts.list.slice(0, depth + 1).list.join("")
            found[f"parts to {depth + 1}"] = _codes(prefix)
    return {name: codes for name, codes in found.items() if len(np.unique(codes)) > 1}


# -- events alone: units are all combinations of what places can be --------------------------------


def _of_events(table: pl.DataFrame, when: str, file: Path) -> FailureHistory:
    rows = len(table)
    table = table.with_columns(_t=_seconds(table[when])).filter(pl.col("_t").is_not_null())
    if table.is_empty():
        problem = f"no time in column '{when}' can be read"
        raise StewardError(problem, where=str(file), hint="ISO 8601, such as 2019-01-04T14:41:12Z")
    table = table.sort("_t")
    places = _place_columns(table.drop("_t", when))
    if not places:
        raise StewardError(
            "there is no column that says what failed",
            where=str(file),
            hint="a serial number, or the place: rack, enclosure, slot",
        )
    keys = _deciding(table, places)
    grid = _grid(table.select(keys), keys)
    indexed = grid.with_row_index("_unit")
    joined = table.join(indexed, on=keys, how="left", nulls_equal=True)
    count = len(grid)
    first_s, last_s = float(table["_t"][0]), float(table["_t"][-1])
    return FailureHistory(
        units=tuple("/".join(map(str, row)) for row in grid.iter_rows()),
        event_s=table["_t"].to_numpy(),
        event_unit=joined["_unit"].to_numpy().astype(np.int64),
        stay_unit=np.arange(count, dtype=np.int64),
        stay_from_s=np.full(count, first_s),
        stay_to_s=np.full(count, last_s + _DAY_S),
        unit_places=_unit_places(grid, keys, table, places),
        stay_places={},
        basis=f"{count:,} units: {' x '.join(keys)}; what replaces a failed one is at its place"
        + _left_out(rows - len(table)),
    )


def _place_columns(table: pl.DataFrame) -> list[str]:
    """Return columns that say what failed: neither a running number nor one value for all."""
    found = []
    for name in table.columns:
        distinct = table[name].n_unique()
        running = not name.strip() or (
            distinct == len(table)
            and table[name].cast(pl.Int64, strict=False).is_not_null().all()
            and name.strip().lower() not in _UNIT
        )
        if distinct > 1 and not running:
            found.append(name)
    return found


def _deciding(table: pl.DataFrame, places: Sequence[str]) -> list[str]:
    """Return the fewest columns, first ones first, that tell apart what all of them do."""
    keys = list(places)
    distinct = table.select(keys).n_unique()
    for name in reversed(places):
        rest = [each for each in keys if each != name]
        if rest and table.select(rest).n_unique() == distinct:
            keys = rest
    return keys


def _grid(seen: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return all units there can be: what never failed is in no row of the file."""
    grid = seen.select(keys[0]).unique()
    for place, name in enumerate(keys[1:], 2):
        values = seen.select(name).unique()
        whole = len(grid) * len(values)
        combined = seen.select(keys[:place]).unique()
        nested = len(combined) == len(values)  # each value at one place only
        if nested or len(combined) >= _CROSSED * whole or whole > _MOST_UNITS:
            grid = combined
        else:
            grid = grid.join(values, how="cross")
    return grid.sort(keys)


def _unit_places(
    grid: pl.DataFrame, keys: Sequence[str], table: pl.DataFrame, places: Sequence[str]
) -> dict[str, Ints]:
    """Return each part of a unit's place, each beginning of it, and what else goes with them."""
    found = {name: _codes(grid[name]) for name in keys if grid[name].n_unique() < len(grid)}
    for depth in range(2, len(keys)):
        prefix = grid.select(pl.concat_str(keys[:depth], separator="/", ignore_nulls=True))
        found["/".join(keys[:depth])] = _codes(prefix.to_series())
    for name in (each for each in places if each not in keys):
        for key in keys:  # what one part decides: the position within an enclosure, say
            pairs = table.select(key, name).unique()
            if len(pairs) == table[key].n_unique() and pairs[name].n_unique() < len(pairs):
                joined = grid.join(pairs, on=key, how="left", maintain_order="left")
                found[name] = _codes(joined[name])
                break
    return {name: codes for name, codes in found.items() if codes.max() < _MOST_PLACES}
