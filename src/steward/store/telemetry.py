"""Telemetry that lasts: samples with canonical names, by entity and time."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path

import polars as pl

from steward.model.frame import ENTITY, T_S, Frame, check_frame
from steward.store.files.damage import BROKEN, panics_as_errors
from steward.store.files.parquet import HOUR_S, TableSchema, set_broken_aside, types_of
from steward.store.files.table import MAX_WAITING_ROWS, ParquetTable
from steward.store.files.tiers import TIERS, Tier, Tiers, cover, read_steps

__all__ = ["KEEP_TIERS_DAYS", "MAX_WAITING_ROWS", "Telemetry"]

KEEP_TIERS_DAYS = (180.0, 1825.0)  # 10 s, 5 min


class Telemetry:
    """All samples, by entity and time. One process appends; any thread or process may read.

    Readers pass `keep_days=None`: the folder stays as it is, and may be another user's.
    """

    def __init__(
        self,
        folder: Path,
        *,
        flush_every_s: float = 30.0,
        keep_days: float | None = 30.0,
        keep_tiers_days: Sequence[float] = KEEP_TIERS_DAYS,
        max_waiting_rows: int = MAX_WAITING_ROWS,
    ) -> None:
        self._folder = folder
        self._undecodable: set[Path] = set()  # and could not, or may not, be moved
        self._removed_s: float | None = None
        self._tiers = Tiers(folder, keep_days=keep_tiers_days, note=self._note)
        self.table = ParquetTable(
            folder,
            TableSchema(),
            flush_every_s=flush_every_s,
            keep_days=keep_days,
            max_waiting_rows=max_waiting_rows,
            after=self._tiers.make,
        )

    def append(self, frame: Frame) -> None:
        """Add samples; the next flush makes them durable."""
        self.table.append(check_frame(frame, where="telemetry"))

    def flush(self) -> None:
        """Write all that waits. Durable when it returns; when it raises, the rest still waits."""
        self.table.flush()

    def upkeep(self, now_s: float) -> None:
        """Do what is due by sample time: flush, compact an hour that is over, remove old days."""
        self._tiers.now_s = now_s
        try:
            self.table.upkeep(now_s)
        finally:
            if self._removed_s is None or not 0 <= now_s - self._removed_s < HOUR_S:
                self._removed_s = now_s
                self._tiers.remove_old(min(now_s, self.table.compactor.trusted_s()))

    def read(
        self,
        *,
        entities: Sequence[str] | None = None,
        metrics: Sequence[str] | None = None,
        from_s: float,
        to_s: float,
        step_s: float | None = None,
    ) -> Frame:
        """Return rows with `from_s <= t_s <= to_s`, sorted by entity and time.

        None means all entities, or all metrics that there are. Rows of which none of `metrics`
        was ever read are left out. Different rows of one entity and moment stay so; their values
        decide which comes first, so that the order is always the same.

        With `step_s` there is one row per entity and step that begins in that time, with columns
        `NAME.min`, `.max`, `.mean` and `.count`, from the coarsest tier that has them.
        """
        where = pl.lit(value=True) if entities is None else pl.col(ENTITY).is_in(list(entities))
        if step_s is None:
            return self.table.read(where, metrics, from_s=from_s, to_s=to_s)
        first_s = -(-from_s // step_s) * step_s
        last_s = (to_s // step_s + 1) * step_s if isfinite(to_s) else to_s
        where &= pl.col(T_S).is_between(first_s, last_s, closed="left")
        tiers = [tier for tier in TIERS if step_s % tier.step_s == 0]
        return self.table.retried(
            lambda: self._steps(where, metrics, tiers, (first_s, last_s, step_s))
        )

    def _steps(
        self,
        where: pl.Expr,
        metrics: Sequence[str] | None,
        tiers: Sequence[Tier],
        time: tuple[float, float, float],
    ) -> Frame:
        from_s, to_s, step_s = time
        with self.table.lock:  # a flush between the two would show its rows twice, or not at all
            known = cover(
                self._folder,
                tiers,
                from_s=from_s,
                to_s=to_s,
                note=self.table.note,
                damaged=self._undecodable,
            )
            waiting = self.table.waiting.tables()
        try:
            with panics_as_errors():
                return read_steps(known, waiting, where, metrics=metrics, step_s=step_s)
        except BROKEN as fault:
            files = [file for level in known.levels for file in level]
            note = self.table.note
            broken = [set_broken_aside([f], types_of(f, TableSchema()), note) for f in files]
            if not any(broken):
                raise
            self._undecodable |= set().union(*broken)
            raise FileNotFoundError from fault  # read the others

    def _note(self, text: str) -> None:
        self.table.notes.append(text)

    def damage(self) -> tuple[str, ...]:
        """Return what was lost or set aside since this was opened."""
        return self.table.damage()

    def close(self) -> None:
        """Flush, and release the compaction lock for other processes."""
        self.table.close()
