"""Parquet files of others: wide or long, as for CSV."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl
from polars.exceptions import PanicException, PolarsError

from steward.errors import StewardError
from steward.model.event import Observation
from steward.model.metrics.columns import TRIED, ColumnNames
from steward.observe.importing.source import FileHead, ImportCounts, ImportSource
from steward.observe.importing.table_reader import TableReader

__all__ = ["Parquet"]

_ROWS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Parquet:
    """Read a slice of rows at a time."""

    name: str = "parquet"

    def recognises(self, head: FileHead) -> bool:
        return head.is_parquet

    def read(self, source: ImportSource, tally: ImportCounts) -> Iterator[Observation]:
        names = ColumnNames(TRIED, source.columns)
        reader = TableReader(source=source, tally=tally, names=names)
        size_bytes = source.path.stat().st_size
        try:
            rows = pl.scan_parquet(source.path, glob=False)
            total = rows.select(pl.len()).collect().item()
            for start in range(0, total, _ROWS):
                table = rows.slice(start, _ROWS).collect()
                tally.rows += table.height
                yield from reader.observations(table)
                source.progress(size_bytes * table.height // total)
        except (PolarsError, PanicException) as fault:
            problem = " ".join(str(fault).split())[:300]
            raise StewardError(
                f"cannot be read as Parquet: {problem}",
                where=str(source.path),
                hint="check it with another program; a file that is still written has no end yet",
            ) from fault
