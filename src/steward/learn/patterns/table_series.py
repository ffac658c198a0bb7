"""Wide files as series by metric and entity: what checks of data quality look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from steward.errors import StewardError
from steward.learn.patterns.column_names import Column, read_names
from steward.learn.patterns.file_windows import Rates, Roles
from steward.learn.patterns.inputs import Input
from steward.learn.patterns.table_blocks import Reading, open_table
from steward.model.frame import ENTITY, T_S, Frame
from steward.store.files.time_columns import seconds

__all__ = ["VALUE", "series_of"]

VALUE = "\0v"  # the column of values, as `observe/quality` calls it


def series_of(each: Input, seen: Reading, *, rows: int = 0) -> Iterator[tuple[str, Frame]]:
    """Yield one metric of one block at a time; `rows` bounds how much of a file is read."""
    try:
        yield from _series(each, seen, rows)
    except StewardError as fault:
        seen.count(f"a file cannot be used: {fault.problem}"[:200], each.path)


def _series(each: Input, seen: Reading, most: int) -> Iterator[tuple[str, Frame]]:
    table = open_table(each.path, seen)
    roles = Roles.of(table)
    columns = [column for column in read_names(table.names) if column.place not in roles.taken]
    by_name: dict[str, list[Column]] = {}
    for column in columns:
        by_name.setdefault(column.metric or column.generic or column.name, []).append(column)
    rates = {name: Rates(columns=some) for name, some in by_name.items()}
    places = [column.place for column in columns]
    done = 0
    for block in table.blocks([], places, sorted(roles.taken), seen):
        part = block.head(most - done) if most else block
        t_s = seconds(part[str(roles.time)].alias(table.names[roles.time]))
        part, t_s = part.filter(t_s.is_not_null()), t_s.drop_nulls()
        owner = _owner(part, roles, each.run)
        series = owner.rank("dense").cast(pl.Int64).to_numpy()
        for name, some in by_name.items():
            values = _values(part, some, rates[name], t_s, series)
            yield name, _frame(some, owner, t_s, values)
        done += len(part)
        if most and done >= most:
            return


def _values(
    part: pl.DataFrame,
    columns: Sequence[Column],
    rates: Rates,
    t_s: pl.Series,
    series: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> list[pl.Series]:
    """Return float64 values in our units; a counter becomes its rate."""
    if any(column.counter or column.per_sample for column in columns):
        found = rates.values(part, t_s.to_numpy(), series).astype(np.float64)
        return [pl.Series(values) for values in found]
    return [part[str(column.place)] * column.scale for column in columns]


def _owner(part: pl.DataFrame, roles: Roles, run: str) -> pl.Series:
    """Return what each row is about: its node and device, or the file itself."""
    named = [roles.node, roles.device if roles.device != roles.node else None]
    keys = [str(place) for place in named if place is not None]
    if not keys:
        return pl.Series([run] * len(part), dtype=pl.String)
    return part.select(pl.concat_str([pl.col(key).cast(pl.String) for key in keys], separator="/"))[
        keys[0]
    ].fill_null("")


def _frame(
    columns: Sequence[Column], owner: pl.Series, t_s: pl.Series, values: Sequence[pl.Series]
) -> Frame:
    frames = [
        pl.DataFrame({ENTITY: _entity(owner, column), T_S: t_s, VALUE: series.fill_nan(None)})
        for column, series in zip(columns, values, strict=True)
    ]
    return pl.concat(frames).sort(ENTITY, T_S, maintain_order=True)


def _entity(owner: pl.Series, column: Column) -> pl.Series:
    device = column.device.replace("/", "_")
    of = pl.Series([column.host] * len(owner), dtype=pl.String) if column.host else owner
    return of if not device else pl.select(pl.concat_str([of, pl.lit(f"/{device}")])).to_series()
