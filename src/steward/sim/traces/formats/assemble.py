"""The last step of every reader of a table: a sheet, checked, becomes a trace."""

from __future__ import annotations

from typing import Any

import polars as pl

from steward.model.trace import Trace
from steward.sim.traces.rows import build
from steward.sim.traces.source import Sheet, TraceSource
from steward.sim.traces.table import EXTRA, TraceTable

__all__ = ["trace_from"]


def trace_from(
    table: TraceTable,
    source: TraceSource,
    *,
    reader: str,
    rows: pl.LazyFrame,
    cells: dict[str, pl.Expr],
    **more: Any,  # noqa: ANN401 - the other fields of Sheet
) -> Trace:
    """Build the trace of a table; rows that are empty, or longer than the header, are left out."""
    empty = pl.all_horizontal(pl.col(*table.columns).is_null())
    leave_out = (
        ("the row is empty", empty),
        ("the row has more cells than the header", pl.col(EXTRA).is_not_null()),
        *more.pop("leave_out", ()),
    )
    chosen = ", ".join(f"{column}={value}" for column, value in source.picks.items())
    origin = f"{source.path}{f' ({chosen})' if chosen else ''}, read as {reader}"
    return build(
        Sheet(
            name=source.name,
            origin=origin,
            rows=rows,
            cells=cells,
            lines=table.lines,
            leave_out=leave_out,
            notes=table.notes + more.pop("notes", ()),
            **more,
        )
    )
