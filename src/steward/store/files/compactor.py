"""Compact a table's closed hours in a background thread, and remove partitions that are too old.

Only one process does this at a time: the one that holds the folder's lock.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from steward.errors import StewardError
from steward.store.atomic import PRIVATE_FILE, TMP
from steward.store.files.compaction import clean, merge
from steward.store.files.damage import BROKEN, Note
from steward.store.files.parquet import Partitions, TableSchema, cannot_write, suppress_full_disk

__all__ = ["Compactor", "remove_old"]

_EVERY_S = 60.0
_GRACE_S = 300.0  # samples may come late; after that an hour is closed
_DAY_S = 86_400.0
_MAX_VALUES = 16_000_000  # of one compacted file: bounds the memory that compaction takes
_EVIDENCE = 24  # partitions with rows that have to be there before their times are trusted
_MAX_REMOVED = 24  # partitions at a time


class Compactor:
    """Compacts and removes, one hour at a time.

    Without `keep_days` the folder is only read: it stays as it is, and may belong to another user.
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
        self._after = after  # what is due when a partition is compact, in the background thread
        self._partitions = partitions
        self._schema = schema
        self.max_values = max_values  # may be changed at any time
        self.between: Callable[[], None] = lambda: None  # called between two pieces of work
        self.also_trusted: tuple[Compactor, ...] = ()  # fuller tables of the same recorder
        self._keep_s = None if keep_days is None else keep_days * _DAY_S
        self._note = note
        self._lock_handle: int | None = None
        self._open_hours: set[int] = set()  # may hold more than one file
        self._next_s: float | None = None
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="compaction")
        self._work: tuple[int, Future[None]] | None = None
        with suppress_full_disk(note):
            self._take_over()

    def touched(self, hour: int) -> None:
        """Record that a file was written to this hour."""
        self._open_hours.add(hour)

    def trusted_s(self) -> float:
        """Return the time up to which this table's rows prove that time has passed.

        Each hour that has rows counts as one hour. So a clock that jumps ahead, one sender with a
        wrong clock, or a long pause, moves this by the hours recorded since and not by the jump.
        """
        found = self._partitions.between(0.0, float("inf"))
        own = 0
        if found:
            own = min(found[-1] + 1, found[-min(_EVIDENCE, len(found))] + _EVIDENCE)
        return max(
            float(own * self._partitions.period_s),
            *(each.trusted_s() for each in self.also_trusted),
            0.0,
        )

    def run_due(self, now_s: float) -> None:
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
        period_s, closed_s = self._partitions.period_s, now_s - _GRACE_S
        closed = [hour for hour in sorted(self._open_hours) if (hour + 1) * period_s <= closed_s]
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
        """Finish what was begun, and release the folder's lock."""
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
        """Lock this folder unless another process has; remove what that one left half done."""
        if self._lock_handle is not None:
            return True
        if self._keep_s is None or not self._partitions.root.is_dir():
            return False
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        handle = os.open(self._partitions.root / ".lock", flags, PRIVATE_FILE)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        self._lock_handle = handle
        for hour in self._partitions.between(0.0, float("inf")):
            self.touched(hour)
            folder = self._partitions.folder(hour)
            clean(folder, self._schema, self._note)
            with suppress(OSError):  # readers ignore half-written files too
                for file in folder.glob(f"*{TMP}"):
                    file.unlink(missing_ok=True)
        return True

    def _compact(self, hour: int) -> None:
        folder = self._partitions.folder(hour)
        try:
            self.between()
            merge(folder, schema=self._schema, max_values=self.max_values, note=self._note)
            self.between()
            self._after(hour)
            self.between()
        except OSError as fault:
            raise cannot_write(folder, fault) from fault
        except BROKEN as fault:
            raise StewardError(
                f"the files of an hour cannot be merged: {' '.join(str(fault).split())[:300]}",
                where=str(folder),
                hint="damaged files are moved to `damaged/`; it is tried again in a minute",
            ) from fault

    def _remove_old(self, now_s: float) -> None:
        if self._keep_s is not None:
            newest_s = min(now_s, self.trusted_s())
            removed = remove_old(self._partitions, newest_s=newest_s, keep_s=self._keep_s)
            self._open_hours.difference_update(removed)


def remove_old(partitions: Partitions, *, newest_s: float, keep_s: float) -> list[int]:
    """Remove the oldest partitions that end more than `keep_s` before `newest_s`, a few at a time.

    Pass a time that rows prove (`Compactor.trusted_s`), not a clock's.
    """
    old = partitions.between(0.0, newest_s - keep_s - partitions.period_s)[:_MAX_REMOVED]
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
