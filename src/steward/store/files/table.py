"""A table that lasts: rows wait in memory for a moment, then lie in Parquet files for weeks.

At most `max_waiting_rows` wait. They are dropped, oldest first, only when the disk has
refused them and more come in; `damage()` counts them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl

from steward.errors import StewardError
from steward.model.frame import ENTITY, T_S, Frame
from steward.store.atomic import make_folder
from steward.store.files.compactor import Compactor
from steward.store.files.damage import BROKEN, Note, NoteOnly
from steward.store.files.parquet import (
    Partitions,
    TableSchema,
    cannot_write,
    columns_of,
    deduplicated,
    live_files,
    scan,
    suppress_full_disk,
    write_frame,
)
from steward.store.files.write_buffer import WriteBuffer

__all__ = ["MAX_WAITING_ROWS", "ParquetTable"]

MAX_WAITING_ROWS = 500_000
_FLUSH_ROWS = 100_000
_MAX_NOTES = 100
_LAST_S = 253_402_300_800.0  # the year 10000: no calendar goes further
_TRIES = 5


class ParquetTable:
    """Rows by time and entity. One process appends; any thread or process may read."""

    def __init__(
        self,
        folder: Path,
        schema: TableSchema,
        *,
        flush_every_s: float = 30.0,
        keep_days: float | None = 30.0,  # None: it is only read
        max_waiting_rows: int = MAX_WAITING_ROWS,
        after: Callable[[int], None] = lambda _part: None,
    ) -> None:
        self.schema = schema
        self.partitions = Partitions(folder)
        self.notes: deque[str] = deque(maxlen=_MAX_NOTES)
        self.note: Note = (
            self.notes.append if keep_days is not None else NoteOnly(self.notes.append)
        )
        self.lock = threading.RLock()  # of what waits in memory, and of its way to the disk
        self.waiting = WriteBuffer(schema)
        self._max_waiting_rows = max_waiting_rows
        self._flush_every_s = flush_every_s
        self._flushed_s: float | None = None
        self._refused = False
        self._dropped_rows = 0
        self._bad_rows = 0
        try:
            if keep_days is not None:
                with suppress_full_disk(self.notes.append):
                    make_folder(folder)
            self.compactor = Compactor(
                self.partitions,
                schema=schema,
                keep_days=keep_days,
                note=self.note,
                after=after,
            )
        except OSError as fault:
            raise cannot_write(folder, fault) from fault

    def append(self, frame: Frame) -> None:
        """Add rows of the table's schema; the next flush makes them durable."""
        good = self._with_time_and_place(frame)
        if good.is_empty():
            return
        with self.lock:
            self.waiting.add(good)
            if self.waiting.rows > self._max_waiting_rows:
                self._drop_excess()

    def flush(self) -> None:
        """Write all that waits. Durable when it returns; when it raises, the rest still waits."""
        with self.lock:
            if not self.waiting.rows:
                return
            left = self.waiting.by_partition(self.partitions)
            self._refused = True
            try:
                while left:
                    part, table = left[0]
                    folder = self.partitions.folder(part)
                    write_frame(folder, table, schema=self.schema)
                    self.compactor.touched(part)
                    del left[0]
                self._refused = False
            finally:
                self.waiting.keep_only([table for _, table in left])

    def upkeep(self, now_s: float) -> None:
        """Do what is due by sample time: flush, compact an hour that is over, remove old days.

        A disk that is full must not keep old days from being removed.
        """
        fault: StewardError | None = None
        try:
            if self._flush_is_due(now_s):
                self._flushed_s = now_s
                self.flush()
        except StewardError as refused:
            fault = refused
        self.compactor.run_due(now_s)
        if fault is not None:
            raise fault

    def read(
        self,
        where: pl.Expr,
        metrics: Sequence[str] | None = None,
        *,
        from_s: float = 0.0,
        to_s: float = float("inf"),
    ) -> Frame:
        """Return rows between two moments that fulfil `where`, in the table's order.

        Exact duplicates count once. With `metrics`, rows in which none of them was recorded
        are left out.
        """
        where &= pl.col(T_S).is_between(from_s, to_s)
        return self.retried(lambda: self._read_once(where, metrics, from_s=from_s, to_s=to_s))

    def retried(self, read: Callable[[], Frame]) -> Frame:
        """Read; retry if files were replaced meanwhile."""
        for _ in range(_TRIES):
            try:
                return read()
            except FileNotFoundError:
                continue  # compaction or retention was faster
            except OSError as fault:
                raise StewardError(
                    f"telemetry cannot be read: {fault.strerror or fault}",
                    where=str(self.partitions.root),
                    hint="the user that runs steward needs access to all files there",
                ) from fault
            except BROKEN as fault:
                raise StewardError(
                    f"a file is broken: {' '.join(str(fault).split())[:300]}",
                    where=str(self.partitions.root),
                    hint="this is a fault of steward: please report it",
                ) from fault
        raise StewardError(
            "telemetry files vanish faster than they can be read",
            where=str(self.partitions.root),
            hint="does another program delete files there? query less time at once",
        )

    def damage(self) -> tuple[str, ...]:
        """Return what was lost or set aside since this was opened."""
        counts = (
            (self._dropped_rows, "of the oldest samples were dropped: the disk took no more"),
            (self._bad_rows, "samples had no usable time or no entity and were refused"),
        )
        return (*self.notes, *(f"{count} {what}" for count, what in counts if count))

    def close(self) -> None:
        """Flush, and release the compaction lock for other processes."""
        try:
            self.flush()
        finally:
            self.compactor.close()

    def _with_time_and_place(self, frame: Frame) -> Frame:
        usable = pl.col(T_S).is_between(0.0, _LAST_S, closed="left") & pl.col(ENTITY).is_not_null()
        good = frame.filter(usable)
        self._bad_rows += frame.height - good.height
        return good

    def _drop_excess(self) -> None:
        """Write what waits, or drop the oldest rows if the disk has just refused them."""
        if not self._refused:
            try:
                self.flush()
            except StewardError as fault:
                self.notes.append(str(fault))
        too_many = self.waiting.rows - self._max_waiting_rows
        if too_many > 0:
            self.waiting.drop_oldest(too_many)
            self._dropped_rows += too_many

    def _flush_is_due(self, now_s: float) -> bool:
        if self._flushed_s is None:
            self._flushed_s = now_s
        passed_s = now_s - self._flushed_s
        jumped_back = passed_s < 0.0
        full = self.waiting.rows >= _FLUSH_ROWS and not self._refused
        return passed_s >= self._flush_every_s or jumped_back or full

    def _read_once(
        self, where: pl.Expr, metrics: Sequence[str] | None, *, from_s: float, to_s: float
    ) -> Frame:
        fixed = self.schema.names
        with self.lock:  # a flush between the two would show its rows twice, or not at all
            files = self.files(from_s=from_s, to_s=to_s)
            waiting = self.waiting.tables()
        has = {file: {*columns_of(file, self.schema)} for file in files}
        if metrics is None:
            there = {name for table in waiting for name in table.columns}.union(*has.values())
            chosen = sorted(there - {*fixed})
        else:
            chosen = [name for name in dict.fromkeys(metrics) if name not in fixed]
        if metrics:
            files = [file for file in files if not has[file].isdisjoint(chosen)]
            waiting = [table for table in waiting if not {*chosen}.isdisjoint(table.columns)]
        stored = scan(files, metrics=chosen, where=where, schema=self.schema, note=self.note)
        rows = pl.concat([stored, *(each.filter(where) for each in waiting)], how="diagonal")
        return deduplicated(rows.select(*fixed, *chosen), self.schema.order)

    def files(self, *, from_s: float, to_s: float) -> list[Path]:
        """Return the files with rows between two moments."""
        folders = [self.partitions.folder(part) for part in self.partitions.between(from_s, to_s)]
        return [file for each in folders for file in live_files(each, self.schema, self.note)]
