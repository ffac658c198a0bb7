"""Log lines that last, by time: a table of texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from steward.model.event import LogLine
from steward.model.frame import ENTITY, T_S, Frame
from steward.store.files.parquet import TableSchema
from steward.store.files.table import ParquetTable

__all__ = ["LOGS", "Logs"]

LOGS = TableSchema(
    fixed=(
        (T_S, pl.Float64()),
        (ENTITY, pl.String()),
        ("source", pl.String()),
        ("level", pl.Int64()),
        ("text", pl.String()),
    ),
    order=(T_S, ENTITY, "source"),
    metrics=False,
)
_MAX_CHARS = 32_768
_MAX_WAITING_ROWS = 100_000


class Logs:
    """Lines of programs and of the kernel. Equal lines of one source and moment are one."""

    def __init__(
        self, folder: Path, *, flush_every_s: float = 30.0, keep_days: float = 30.0
    ) -> None:
        self.table = ParquetTable(
            folder,
            LOGS,
            flush_every_s=flush_every_s,
            keep_days=keep_days,
            max_waiting_rows=_MAX_WAITING_ROWS,
        )
        self._cut = 0

    def keep(self, lines: Sequence[LogLine]) -> None:
        """Add lines; the next flush makes them durable."""
        if not lines:
            return
        self._cut += sum(len(line.text) > _MAX_CHARS for line in lines)
        rows = [(x.t_s, x.entity, x.source, x.level, x.text[:_MAX_CHARS]) for x in lines]
        self.table.append(pl.DataFrame(rows, schema=dict(LOGS.fixed), orient="row"))

    def read(self, *, from_s: float, to_s: float) -> Frame:
        """Return lines between two moments, oldest first."""
        return self.table.read(pl.lit(value=True), from_s=from_s, to_s=to_s)

    def newest(self, *, from_s: float, limit: int) -> tuple[LogLine, ...]:
        """Return the newest lines since then, oldest first; their numbers are not recorded."""
        rows = self.read(from_s=from_s, to_s=float("inf")).tail(limit).iter_rows(named=True)
        return tuple(LogLine(**row) for row in rows)

    def damage(self) -> tuple[str, ...]:
        """Return what was lost or cut."""
        cut = (f"{self._cut} log lines were cut at {_MAX_CHARS} characters",) if self._cut else ()
        return (*self.table.damage(), *cut)
