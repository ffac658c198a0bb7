"""Keeps the folder of telemetry small: many files of a past hour become one, old hours go.

Only one process does this at a time: the one that holds the folder's lock.
"""

from __future__ import annotations

import fcntl
import os
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import polars as pl

from steward.errors import StewardError
from steward.store.parquet_files import (
    HOUR_S,
    TMP,
    Note,
    cannot_write,
    columns_of,
    folder_of,
    hours_in,
    live_files,
    replaced_files,
    scan,
    write_frame,
)

__all__ = ["Keeper"]

_EVERY_S = 60.0
_GRACE_S = 300.0  # samples may come late; after that an hour is closed
_DAY_S = 86_400.0
_LEVEL = 3  # written once, kept for weeks
_MAX_ROWS = 1_000_000  # of one compacted file: bounds the memory that compaction takes


class Keeper:
    """Compacts and removes, one hour at a time. Compacting is done beside the caller's thread."""

    def __init__(
        self, root: Path, *, keep_days: float, note: Note, max_rows: int = _MAX_ROWS
    ) -> None:
        self._root = root
        self._max_rows = max_rows
        self._keep_s = keep_days * _DAY_S
        self._note = note
        self._lock_handle: int | None = None
        self._open_hours: set[int] = set()  # may hold more than one file
        self._newest_hour = 0
        self._next_s: float | None = None
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="compaction")
        self._work: tuple[int, Future[bool]] | None = None
        self._take_over()

    def touched(self, hour: int) -> None:
        """Remember that a file was written to this hour."""
        self._open_hours.add(hour)
        self._newest_hour = max(self._newest_hour, hour)

    def keep(self, now_s: float) -> None:
        """Start what is due at `now_s`, and raise what went wrong with what was due before."""
        if self._work is not None and not self._work[1].done():
            return
        self._settle()
        if self._next_s is not None and self._next_s - _EVERY_S <= now_s < self._next_s:
            return
        self._next_s = now_s + _EVERY_S
        try:
            if self._take_over():
                self._remove_old(now_s)
                self._begin_to_compact(now_s)
        except OSError as fault:
            raise cannot_write(self._root, fault) from fault

    def _begin_to_compact(self, now_s: float) -> None:
        closed = [h for h in sorted(self._open_hours) if (h + 1) * HOUR_S + _GRACE_S <= now_s]
        if closed:
            self._next_s = now_s  # there may be more: look again next turn
            self._open_hours.discard(closed[0])
            folder = folder_of(self._root, closed[0])
            self._work = (closed[0], self._worker.submit(self._compact, folder))

    def close(self) -> None:
        """Finish what was begun, and let another process go on."""
        try:
            self._settle()
        finally:
            self._worker.shutdown()
            if self._lock_handle is not None:
                os.close(self._lock_handle)
                self._lock_handle = None

    def _settle(self) -> None:
        """Wait for the compaction that was begun, if any. One that did something may do more."""
        if self._work is None:
            return
        (hour, work), self._work = self._work, None
        try:
            again = work.result()
        except StewardError:
            self._open_hours.add(hour)
            self._next_s = None if self._next_s is None else self._next_s + _EVERY_S
            raise
        if again:
            self._open_hours.add(hour)

    def _take_over(self) -> bool:
        """Become the one that keeps this folder, unless another process is; clean up after it."""
        if self._lock_handle is not None:
            return True
        handle = os.open(self._root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        self._lock_handle = handle
        for hour in hours_in(self._root, from_s=0.0, to_s=float("inf")):
            self.touched(hour)
            folder = folder_of(self._root, hour)
            self._clean(folder)
            with suppress(OSError):  # readers ignore half-written files too
                for file in folder.glob(f"*{TMP}"):
                    file.unlink(missing_ok=True)
        return True

    def _clean(self, folder: Path) -> None:
        """Remove files that another one replaces. Readers ignore them, so a failure can wait."""
        with suppress(OSError):
            for file in replaced_files(folder, self._note):
                file.unlink(missing_ok=True)

    def _compact(self, folder: Path) -> bool:
        try:
            return self._compact_some(folder)
        except OSError as fault:
            raise cannot_write(folder, fault) from fault

    def _compact_some(self, folder: Path) -> bool:
        """Merge one group of files, smallest first. Return whether there was one."""
        live = live_files(folder, self._note)
        rows = {file: pl.scan_parquet(file).select(pl.len()).collect().item() for file in live}
        group: list[Path] = []
        total = 0
        for file in sorted(live, key=lambda file: (rows[file], file)):
            total += rows[file]
            if group and total > self._max_rows:
                break
            group.append(file)
        if len(group) < 2:
            return False
        frame = scan(group, metrics=columns_of(group), where=pl.lit(value=True), note=self._note)
        left_over = replaced_files(folder, self._note)
        write_frame(
            folder, frame, replaces=[file.name for file in (*group, *left_over)], level=_LEVEL
        )
        self._clean(folder)
        return True

    def _remove_old(self, now_s: float) -> None:
        """Forget hours that are too old, counted from the newest samples rather than the clock.

        A clock that jumps ahead, or a long pause, must not delete what was seen last.
        """
        newest_s = min(now_s, (self._newest_hour + 1) * HOUR_S)
        for hour in hours_in(self._root, from_s=0.0, to_s=newest_s - self._keep_s - HOUR_S):
            folder = folder_of(self._root, hour)
            try:
                for file in folder.iterdir():
                    file.unlink(missing_ok=True)
                folder.rmdir()
                with suppress(OSError):  # other hours of that day are still there
                    folder.parent.rmdir()
            except OSError as fault:
                raise StewardError(
                    f"old telemetry cannot be removed: {fault.strerror}",
                    where=str(folder),
                    hint="give the user that runs steward write access to this folder",
                ) from fault
            self._open_hours.discard(hour)
