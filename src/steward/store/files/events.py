"""Events that last, by time, of recorders that have no journal."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import polars as pl

from steward.model.event import Event
from steward.model.frame import ENTITY, T_S, Frame
from steward.store.files.damage import Note
from steward.store.files.parquet import TableSchema
from steward.store.files.table import ParquetTable

__all__ = ["EVENTS", "EventTable", "read_events"]

EVENTS = TableSchema(
    fixed=(
        (T_S, pl.Float64()),
        (ENTITY, pl.String()),  # the event's subject
        ("kind", pl.String()),
        ("text", pl.String()),
        ("source", pl.String()),
    ),
    order=(T_S, ENTITY, "kind"),
    metrics=False,
)
_EVERYTHING = pl.lit(value=True)
_MAX_WAITING_ROWS = 100_000


class EventTable:
    """What happened, oldest first. Equal events of one moment are one."""

    def __init__(
        self, folder: Path, *, flush_every_s: float = 30.0, keep_days: float = 30.0
    ) -> None:
        self.table = ParquetTable(
            folder,
            EVENTS,
            flush_every_s=flush_every_s,
            keep_days=keep_days,
            max_waiting_rows=_MAX_WAITING_ROWS,
        )

    def keep(self, events: Sequence[Event]) -> None:
        """Add events; the next flush makes them durable."""
        if events:
            rows = [(e.t_s, e.subject, e.kind, e.text, e.source) for e in events]
            self.table.append(pl.DataFrame(rows, schema=dict(EVENTS.fixed), orient="row"))


def read_events(folder: Path, note: Note) -> Frame:
    """Read the events of a store folder: `t_s`, `kind`, `subject`, `text`, `source`."""
    with closing(ParquetTable(folder / "events", EVENTS, keep_days=None)) as table:
        rows = table.read(_EVERYTHING)
        for text in table.damage():
            note(text)
    return rows.select(T_S, "kind", pl.col(ENTITY).alias("subject"), "text", "source")
