"""Telemetry that lasts: samples with canonical names, by entity and time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from steward.model.frame import ENTITY, Frame, check_frame
from steward.store.files.parquet import Shape
from steward.store.files.table import MAX_WAITING_ROWS, Table

__all__ = ["MAX_WAITING_ROWS", "Telemetry"]


class Telemetry:
    """All samples, by entity and time. One process appends; any thread or process may read."""

    def __init__(
        self,
        folder: Path,
        *,
        flush_every_s: float = 30.0,
        keep_days: float = 30.0,
        max_waiting_rows: int = MAX_WAITING_ROWS,
    ) -> None:
        self.table = Table(
            folder,
            Shape(),
            flush_every_s=flush_every_s,
            keep_days=keep_days,
            max_waiting_rows=max_waiting_rows,
        )

    def append(self, frame: Frame) -> None:
        """Take new samples; the next flush makes them durable."""
        self.table.append(check_frame(frame, where="telemetry"))

    def flush(self) -> None:
        """Write all that waits. Durable when it returns; when it raises, the rest still waits."""
        self.table.flush()

    def upkeep(self, now_s: float) -> None:
        """Do what is due by sample time: flush, compact an hour that is over, remove old days."""
        self.table.upkeep(now_s)

    def read(
        self,
        *,
        entities: Sequence[str] | None = None,
        metrics: Sequence[str] | None = None,
        from_s: float,
        to_s: float,
    ) -> Frame:
        """Return rows with `from_s <= t_s <= to_s`, sorted by entity and time.

        None means all entities, or all metrics that there are. Rows of which none of `metrics`
        was ever read are left out. Different rows of one entity and moment stay so; their values
        decide which comes first, so that the order is always the same.
        """
        where = pl.lit(value=True) if entities is None else pl.col(ENTITY).is_in(list(entities))
        return self.table.read(where, metrics, from_s=from_s, to_s=to_s)

    def damage(self) -> tuple[str, ...]:
        """Say what was lost or set aside since this was opened."""
        return self.table.damage()

    def close(self) -> None:
        """Flush, and let another process compact this folder."""
        self.table.close()
