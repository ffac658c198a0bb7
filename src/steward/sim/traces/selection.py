"""Which of the traces in one file: by position (`pollux/1.0/6`) or by column (`#set=1.0`)."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from steward.errors import StewardError, did_you_mean
from steward.sim.traces.locate import TraceLocation
from steward.sim.traces.source import TraceReader, TraceSource
from steward.sim.traces.table import TraceTable, collected, read_table

__all__ = ["choices", "picked", "picks_of"]


def picks_of(place: TraceLocation, reader: TraceReader) -> dict[str, str]:
    """Return column -> value: what was asked for, and the usual choice for the rest."""
    columns = tuple(reader.picks)
    if len(place.parts) > len(columns):
        parts = "/".join(place.parts)
        said = f"only {'/'.join(columns).upper()} can be chosen" if columns else "it has no parts"
        where = str(place.path)
        raise StewardError(f"there is no '{parts}' in it", where=where, hint=said)
    asked = dict(zip(columns, place.parts, strict=False)) | place.picks
    return {column: value for column, value in (reader.picks | asked).items() if value}


def picked(table: TraceTable, source: TraceSource) -> pl.LazyFrame:
    """Return the rows asked for, no more than the limit; refuse values that are not there."""
    rows = table.scan
    where = f"{source.path}"
    for column, value in source.picks.items():
        if column not in table.columns:
            hint = did_you_mean(column, table.columns) or f"columns: {', '.join(table.columns)}"
            raise StewardError(f"has no column '{column}' to pick by", where=where, hint=hint)
        chosen = rows.filter(pl.col(column).str.strip_chars() == value)
        if collected(chosen.head(1), where=where).is_empty():
            known = collected(rows.select(pl.col(column).unique().sort()), where=where)[column]
            listed = ", ".join(str(word) for word in known.drop_nulls().head(40))
            problem = f"no row has {column} = '{value}'; there are: {listed}"
            hint = did_you_mean(value, known.drop_nulls()) or "choose one of them"
            raise StewardError(problem, where=where, hint=hint)
        rows = chosen
    return rows if source.limit is None else rows.head(source.limit)


def choices(path: Path, reader: TraceReader) -> list[tuple[str, ...]]:
    """Return every trace in a file, as the values of the columns that part it."""
    apart = [column for column, usual in reader.picks.items() if usual]
    if not apart:
        return [()]
    table = read_table(path)
    found = collected(table.scan.select(apart).unique(maintain_order=True), where=str(path))
    return list(found.iter_rows())
