"""Keeps a table's folder small: many files of a past hour become one per set of columns.

Hours that are too old go.
Only one process does this at a time: the one that holds the folder's lock.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from steward.errors import StewardError
from steward.store.atomic import TMP
from steward.store.files.compaction import clean, merge
from steward.store.files.parquet import Note, Partitions, TableSchema, cannot_write

__all__ = ["Compactor", "remove_old"]

_EVERY_S = 60.0
_GRACE_S = 300.0  # samples may come late; after that an hour is closed
_DAY_S = 86_400.0
_MAX_VALUES = 16_000_000  # of one compacted file: bounds the memory that compaction takes


class Compactor:
    """Compacts and removes, one hour at a time. Compacting is done beside the caller's thread.

    Without `keep_days` the folder is only read: it stays as it is, and may be somebody else's.
    """

    def __init__(
        self,
        partitions: Partitions,
        *,
        keep_days: float | None,
        note: Note,
        schema: TableSchema = TableSchema(),  # noqa: B008 - a frozen value
        max_values: int = _MAX_VALUES,
        after: Callable[[int], None] = lambda _part: None,
    ) -> None:
        self._after = after  # what is due when a partition is compact, beside the caller's thread
        self._partitions = partitions
        self._shape = schema
        self.max_values = max_values  # may be changed at any time
        self.between: Callable[[], None] = lambda: None  # two pieces of work; it too
        self._keep_s = None if keep_days is None else keep_days * _DAY_S
        self._note = note
        self._lock_handle: int | None = None
        self._open_hours: set[int] = set()  # may hold more than one file
        self._newest_hour = 0
        self._next_s: float | None = None
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="compaction")
        self._work: tuple[int, Future[None]] | None = None
        self._take_over()

    def touched(self, hour: int) -> None:
        """Remember that a file was written to this hour."""
        self._open_hours.add(hour)
        self._newest_hour = max(self._newest_hour, hour)

    @property
    def newest_s(self) -> float:
        """The end of the newest partition that was ever seen."""
        return float((self._newest_hour + 1) * self._partitions.period_s)

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
            raise cannot_write(self._partitions.root, fault) from fault

    def _begin_to_compact(self, now_s: float) -> None:
        over_s = now_s - _GRACE_S
        closed = [
            h for h in sorted(self._open_hours) if (h + 1) * self._partitions.period_s <= over_s
        ]
        if closed:
            self._next_s = now_s  # there may be more: look again next turn
            self._open_hours.discard(closed[0])
            self._work = (closed[0], self._worker.submit(self._compact, closed[0]))

    def compact_all(self) -> None:
        """Merge the files of every hour now, of the newest too: nothing more will come."""
        self._settle()
        for hour in sorted(self._open_hours):
            self._compact(hour)

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
        """Wait for the compaction that was begun, if any."""
        if self._work is None:
            return
        (hour, work), self._work = self._work, None
        try:
            work.result()
        except StewardError:
            self._open_hours.add(hour)
            self._next_s = None if self._next_s is None else self._next_s + _EVERY_S
            raise

    def _take_over(self) -> bool:
        """Become the one that keeps this folder, unless another process is; clean up after it."""
        if self._lock_handle is not None:
            return True
        if self._keep_s is None:
            return False
        handle = os.open(
            self._partitions.root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
        )
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        self._lock_handle = handle
        for hour in self._partitions.between(0.0, float("inf")):
            self.touched(hour)
            folder = self._partitions.folder(hour)
            clean(folder, self._shape, self._note)
            with suppress(OSError):  # readers ignore half-written files too
                for file in folder.glob(f"*{TMP}"):
                    file.unlink(missing_ok=True)
        return True

    def _compact(self, hour: int) -> None:
        folder = self._partitions.folder(hour)
        try:
            self.between()
            merge(folder, schema=self._shape, max_values=self.max_values, note=self._note)
            self.between()
            self._after(hour)
            self.between()
        except OSError as fault:
            raise cannot_write(folder, fault) from fault

    def _remove_old(self, now_s: float) -> None:
        if self._keep_s is not None:
            newest_s = min(now_s, self.newest_s)
            self._open_hours -= {
                *remove_old(self._partitions, newest_s=newest_s, keep_s=self._keep_s)
            }


def remove_old(partitions: Partitions, *, newest_s: float, keep_s: float) -> list[int]:
    """Forget partitions that are too old, counted from the newest samples rather than the clock.

    A clock that jumps ahead, or a long pause, must not delete what was seen last.
    """
    old = partitions.between(0.0, newest_s - keep_s - partitions.period_s)
    for part in old:
        folder = partitions.folder(part)
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
    return old
