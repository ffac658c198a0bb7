"""Metrics without a canonical name, as one long table: kept, never dropped."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from steward.errors import StewardError
from steward.model.frame import ENTITY, OTHER_SCHEMA, T_S, Frame
from steward.store.files.parquet import TableSchema
from steward.store.files.table import ParquetTable

__all__ = ["OTHER", "OtherMetrics"]

OTHER = TableSchema(fixed=tuple(OTHER_SCHEMA.items()), order=(ENTITY, "metric", T_S), metrics=False)


class OtherMetrics:
    """Values by name, whatever the name is."""

    def __init__(
        self, folder: Path, *, flush_every_s: float = 30.0, keep_days: float | None = 30.0
    ) -> None:
        self.table = ParquetTable(folder, OTHER, flush_every_s=flush_every_s, keep_days=keep_days)

    def keep(self, rows: Frame) -> None:
        """Add values; the next flush makes them durable."""
        if rows.is_empty():
            return
        if dict(rows.schema) != OTHER_SCHEMA:
            raise StewardError(
                f"has the columns {dict(rows.schema)}",
                where="other metrics",
                hint=f"a long table has {OTHER_SCHEMA}",
            )
        self.table.append(
            rows.filter(pl.col("metric").is_not_null() & pl.col("value").is_not_nan())
        )

    def read(self, *, from_s: float, to_s: float) -> Frame:
        """Return values between two moments, by entity, metric and time."""
        return self.table.read(pl.lit(value=True), from_s=from_s, to_s=to_s)
