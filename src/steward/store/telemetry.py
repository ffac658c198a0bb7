"""Telemetry that lasts: samples wait in memory for a moment, then lie in Parquet files for weeks.

At most `max_waiting_rows` wait. They are given up, oldest first, only when the disk has
refused them and more come in; `damage()` counts them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from steward.errors import StewardError
from steward.model.frame import ENTITY, T_S, Frame, check_frame, empty_frame
from steward.store.compaction import Keeper
from steward.store.parquet_files import (
    HOUR_S,
    cannot_write,
    columns_of,
    folder_of,
    hours_in,
    live_files,
    scan,
    write_frame,
)

__all__ = ["MAX_WAITING_ROWS", "Telemetry"]

MAX_WAITING_ROWS = 500_000
_FLUSH_ROWS = 100_000
_MAX_PIECES = 64
_MAX_NOTES = 100
_LAST_S = 253_402_300_800.0  # the year 10000: no calendar goes further
_TRIES = 5
_HOUR = "\0hour"  # no metric is called that


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
        self._folder = folder
        self._max_waiting_rows = max_waiting_rows
        self._flush_every_s = flush_every_s
        self._pieces: list[Frame] = []
        self._rows = 0
        self._lock = threading.RLock()  # of what waits in memory, and of its way to the disk
        self._flushed_s: float | None = None
        self._refused = False
        self._given_up_rows = 0
        self._bad_rows = 0
        self._notes: deque[str] = deque(maxlen=_MAX_NOTES)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._keeper = Keeper(folder, keep_days=keep_days, note=self._notes.append)
        except OSError as fault:
            raise cannot_write(folder, fault) from fault

    def append(self, frame: Frame) -> None:
        """Take new samples; the next flush makes them durable."""
        good = self._with_time_and_place(check_frame(frame, where="telemetry"))
        if good.is_empty():
            return
        with self._lock:
            self._pieces.append(good)
            self._rows += good.height
            if len(self._pieces) > _MAX_PIECES:
                self._pieces = [self._waiting()]
            if self._rows > self._max_waiting_rows:
                self._make_room()

    def flush(self) -> None:
        """Write all that waits. Durable when it returns; when it raises, the rest still waits."""
        with self._lock:
            if not self._rows:
                return
            waiting = self._waiting_by_hour()
            self._refused = True
            try:
                for hour in list(waiting):
                    write_frame(folder_of(self._folder, hour), waiting[hour])
                    self._keeper.touched(hour)
                    del waiting[hour]
                self._refused = False
            finally:
                self._pieces = list(waiting.values())
                self._rows = sum(piece.height for piece in self._pieces)

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
        self._keeper.keep(now_s)
        if fault is not None:
            raise fault

    def read(
        self,
        *,
        entities: Sequence[str] | None = None,
        metrics: Sequence[str] | None = None,
        from_s: float,
        to_s: float,
    ) -> Frame:
        """Return rows with `from_s <= t_s <= to_s`, sorted by entity and time.

        None means all entities, or all metrics that there are. Two rows of one entity and moment
        stay two rows; their values decide which comes first, so that the order is always the same.
        """
        where = pl.col(T_S).is_between(from_s, to_s)
        if entities is not None:
            where &= pl.col(ENTITY).is_in(list(entities))
        for _ in range(_TRIES):
            try:
                return self._read_once(where, metrics, from_s=from_s, to_s=to_s)
            except FileNotFoundError:
                continue  # compaction or retention was faster
            except OSError as fault:
                raise StewardError(
                    f"telemetry cannot be read: {fault.strerror or fault}",
                    where=str(self._folder),
                    hint="the user that runs steward needs access to all files there",
                ) from fault
        raise StewardError(
            "telemetry files vanish faster than they can be read",
            where=str(self._folder),
            hint="does another program delete files there? ask for less time at once",
        )

    def damage(self) -> tuple[str, ...]:
        """Say what was lost or set aside since this was opened."""
        counts = (
            (self._given_up_rows, "of the oldest samples were given up: the disk took no more"),
            (self._bad_rows, "samples had no usable time or no entity and were refused"),
        )
        return (*self._notes, *(f"{count} {what}" for count, what in counts if count))

    def close(self) -> None:
        """Flush, and let another process compact this folder."""
        try:
            self.flush()
        finally:
            self._keeper.close()

    def _with_time_and_place(self, frame: Frame) -> Frame:
        usable = pl.col(T_S).is_between(0.0, _LAST_S, closed="left") & pl.col(ENTITY).is_not_null()
        good = frame.filter(usable)
        self._bad_rows += frame.height - good.height
        return good

    def _waiting(self) -> Frame:
        return pl.concat(self._pieces, how="diagonal") if self._pieces else empty_frame()

    def _waiting_by_hour(self) -> dict[int, Frame]:
        hours = (pl.col(T_S) // HOUR_S).cast(pl.Int64).alias(_HOUR)
        marked = self._waiting().with_columns(hours)
        parts = marked.partition_by(_HOUR, as_dict=True, include_key=False)
        return {int(hour): part for (hour,), part in sorted(parts.items())}

    def _make_room(self) -> None:
        """Write what waits, or give up the oldest rows if the disk has just refused them."""
        if not self._refused:
            try:
                self.flush()
            except StewardError as fault:
                self._notes.append(str(fault))
        too_many = self._rows - self._max_waiting_rows
        if too_many > 0:
            self._pieces = [self._waiting().slice(too_many)]
            self._rows -= too_many
            self._given_up_rows += too_many

    def _flush_is_due(self, now_s: float) -> bool:
        if self._flushed_s is None:
            self._flushed_s = now_s
        passed_s = now_s - self._flushed_s
        jumped_back = passed_s < 0.0
        full = self._rows >= _FLUSH_ROWS and not self._refused
        return passed_s >= self._flush_every_s or jumped_back or full

    def _read_once(
        self, where: pl.Expr, metrics: Sequence[str] | None, *, from_s: float, to_s: float
    ) -> Frame:
        with self._lock:  # a flush between the two would show its rows twice, or not at all
            hours = hours_in(self._folder, from_s=from_s, to_s=to_s)
            folders = [folder_of(self._folder, hour) for hour in hours]
            files = [f for folder in folders for f in live_files(folder, self._notes.append)]
            waiting = self._waiting().filter(where)
        if metrics is None:
            metrics = sorted({*columns_of(files), *waiting.columns} - {T_S, ENTITY})
        columns = list(dict.fromkeys((ENTITY, T_S, *metrics)))
        stored = scan(files, metrics=columns[2:], where=where, note=self._notes.append)
        rows = pl.concat([stored, waiting], how="diagonal").select(columns)
        return rows.sort(columns).select(T_S, ENTITY, *columns[2:])
