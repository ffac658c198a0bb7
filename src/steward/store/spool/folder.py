"""A folder of segments, each named by the number of its first record, written by one process."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from steward.errors import StewardError, TemporaryError
from steward.store.atomic import make_folder, write_atomic
from steward.store.spool.segment import (
    HEAD_BYTES,
    RECORD_BYTES,
    BadHeadError,
    Segment,
    SpoolRecord,
)

__all__ = ["SEGMENT_BYTES", "Spool", "SpoolFullError"]

SEGMENT_BYTES = 8 * 2**20
_RELEASED = "released"
_PERMANENT = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


class SpoolFullError(TemporaryError):
    """The size limit is reached: the caller waits, or drops the oldest."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where to go on reading after a number."""

    number: int
    first: int  # of the segment
    at: int


class Spool:
    """Numbered bodies, oldest first. Its threads share each sync of the disk.

    What `append` has returned for survives a crash. What it has not may be there or not.
    """

    def __init__(self, folder: Path, *, max_bytes: int, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self._segment_bytes = max(HEAD_BYTES + 1, min(segment_bytes, max_bytes // 4))
        self._changed = threading.Condition()  # guards all below
        self._segments: list[Segment] = []
        self._written = self._synced = self._released = 0
        self._syncing = False
        self._failed: dict[int, OSError] = {}  # numbers whose sync failed, until they are reported
        self._cursor = _Place(0, 0, 0)
        self._damaged_places = 0
        self._cut_bytes = 0
        self._notes: list[str] = []
        try:
            make_folder(folder)
            self._lock = _locked(folder)
        except OSError as fault:
            raise _refused(folder, fault) from fault
        try:
            self._open()
        except OSError as fault:
            os.close(self._lock)
            raise _refused(folder, fault) from fault

    @property
    def newest(self) -> int:
        """The number of the newest body that is safe; 0 when there never was one."""
        return self._synced

    @property
    def released(self) -> int:
        """All bodies up to this number have been released."""
        return self._released

    @property
    def held_bytes(self) -> int:
        """How much of the disk the segments take."""
        with self._changed:
            return self._size()

    @property
    def waiting_bytes(self) -> int:
        """Bytes not released yet; less than what is held, since segments are removed whole."""
        with self._changed:
            if self._released >= self._synced:
                return 0
            oldest, cursor = self._segments[0], self._cursor
            known = cursor.first == oldest.first and cursor.number <= self._released
            return self._size() - (cursor.at if known else 0)

    def damage(self) -> tuple[str, ...]:
        """Return what was found broken since this was opened."""
        counts = (
            (self._damaged_places, "damaged places were stepped over"),
            (self._cut_bytes, "bytes of an unfinished record were cut off"),
        )
        counted = [f"{self.folder}: {count} {what}" for count, what in counts if count]
        return (*self._notes, *counted)

    def append(self, body: bytes) -> int:
        """Keep a body and return its number: durable when it returns, not kept when it raises.

        Threads that append at the same time share one sync.
        """
        try:
            with self._changed:
                number = self._write(body)
                while self._synced < number:
                    self._sync_or_wait()
                fault = self._failed.pop(number, None)
        except OSError as refused:
            fault = refused
        if fault is not None:
            raise _refused(self.folder, fault) from fault
        return number

    def read(self, after: int) -> Iterator[SpoolRecord]:
        """Yield the synced bodies with higher numbers, oldest first."""
        for segment, at, until in self._places(after):
            for found in segment.records(at, until):
                if found.record is None:
                    self._damaged_places += 1
                elif found.record.number > after:
                    self._cursor = _Place(found.record.number, segment.first, found.next_at)
                    yield found.record

    def release(self, up_to: int) -> None:
        """Release bodies up to a number; whole segments are removed.

        After a crash, released bodies may be read again: readers compare numbers.
        """
        with self._changed:
            self._released = max(self._released, min(up_to, self._synced))
            while len(self._segments) > 1 and self._segments[1].first <= self._released + 1:
                self._segments.pop(0).remove()
            with suppress(OSError):  # a full disk must not keep segments from being removed
                number = f"{self._released}\n".encode()
                write_atomic(self.folder / _RELEASED, number, durable=False)

    def drop_oldest(self) -> tuple[SpoolRecord, ...]:
        """Remove the oldest segment although it was not released; return what was in it."""
        try:
            with self._changed:
                while len(self._segments) == 1:
                    if self._segments[0].size == HEAD_BYTES:
                        return ()
                    self._begin_segment()
                oldest, last = self._segments[0], self._segments[1].first - 1
                every = [found.record for found in oldest.records(HEAD_BYTES, oldest.size)]
        except OSError as fault:
            raise _refused(self.folder, fault) from fault
        lost = tuple(each for each in every if each and each.number > self._released)
        self.release(last)
        return lost

    def close(self) -> None:
        """Release the folder's lock. Idempotent; what was appended is durable already."""
        with self._changed:
            for segment in self._segments:
                segment.close()
            self._segments = []
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1

    # -- inside, with the lock held ------------------------------------------------------------

    def _write(self, body: bytes) -> int:
        need = RECORD_BYTES + len(body)
        if need + 2 * HEAD_BYTES > self.max_bytes:
            raise StewardError(
                f"a body of {len(body)} bytes does not fit into {self.max_bytes} bytes",
                where=str(self.folder),
                hint="allow this spool more bytes",
            )
        while self._segments[-1].size + need > self._segment_bytes:
            if self._segments[-1].size == HEAD_BYTES:
                break  # larger than a segment should be: it gets one of its own
            if not self._begin_segment():
                continue  # the lock was given away meanwhile: look again
        if self._size() + need > self.max_bytes:
            raise SpoolFullError(
                f"{self.max_bytes} bytes are waiting already",
                where=str(self.folder),
                hint="wait until some were taken, or allow more bytes",
            )
        self._segments[-1].write(self._written + 1, body)
        self._written += 1
        return self._written

    def _begin_segment(self) -> bool:
        """Begin a segment and return True, or sync what comes before it and return False."""
        if self._syncing or self._synced < self._written:
            self._sync_or_wait()
            return False
        self._segments.append(Segment.create(self.folder, self._written + 1))
        return True

    def _sync_or_wait(self) -> None:
        """Sync all that is written, or wait for the thread that does. Releases the lock."""
        if self._syncing:
            self._changed.wait()
            return
        segment, upto, size = self._segments[-1], self._written, self._segments[-1].size
        self._syncing = True
        self._changed.release()
        fault = None
        try:
            segment.sync()
        except OSError as refused:
            fault = refused
        finally:
            self._changed.acquire()
            self._syncing = False
        if fault is None:
            segment.safe_size = size
            self._synced = upto
        else:
            self._undo(segment, fault)
        self._changed.notify_all()

    def _undo(self, segment: Segment, fault: OSError) -> None:
        """Cut off what could not be synced. Its numbers are not used again."""
        self._failed.update(dict.fromkeys(range(self._synced + 1, self._written + 1), fault))
        self._synced = self._written
        with suppress(OSError):  # if even that fails, it may turn up again: as good as never sent
            segment.cut(segment.safe_size)

    def _size(self) -> int:
        return sum(segment.size for segment in self._segments)

    def _places(self, after: int) -> Iterator[tuple[Segment, int, int]]:
        """Yield the parts of segments that can hold higher numbers and are synced."""
        with self._changed:
            segments, cursor = list(self._segments), self._cursor
        for segment, following in zip(segments, [*segments[1:], None], strict=True):
            if following is not None and following.first <= after + 1:
                continue
            known = cursor.number == after and cursor.first == segment.first
            yield segment, cursor.at if known else HEAD_BYTES, segment.safe_size

    # -- opening -------------------------------------------------------------------------------

    def _open(self) -> None:
        next_number = 1
        for path in Segment.paths(self.folder):
            try:
                self._segments.append(Segment.open(path))
            except BadHeadError:
                next_number = max(next_number, self._set_aside(path))
        self._released = self._read_released()
        if self._segments:
            next_number = max(next_number, self._cut_tail(self._segments[-1]) + 1)
        self._written = self._synced = max(next_number - 1, self._released)
        if not self._segments:
            self._segments.append(Segment.create(self.folder, self._written + 1))
        self.release(self._released)

    def _cut_tail(self, segment: Segment) -> int:
        """Remove what a crash left half written; return the newest number that is sound."""
        newest, end = segment.first - 1, HEAD_BYTES
        for found in segment.records(HEAD_BYTES, segment.size):
            if found.record is not None:
                newest, end = found.record.number, found.next_at
        if end < segment.size:
            self._cut_bytes += segment.size - end
            segment.cut(end)
            segment.sync()
        return newest

    def _set_aside(self, path: Path) -> int:
        """Put away a file that is no segment; return a number beyond any that it may hold."""
        size = path.stat().st_size
        if size <= HEAD_BYTES:  # a crash while it was made, or something has emptied it
            path.unlink()
            if not size:
                self._notes.append(f"{path}: the segment was empty; what it may have held is lost")
            return int(path.stem)
        aside = path.with_suffix(".damaged")
        path.replace(aside)
        self._notes.append(f"{aside}: its head is damaged; it is kept, but cannot be read")
        return int(path.stem) + size // RECORD_BYTES + 1

    def _read_released(self) -> int:
        try:
            return int((self.folder / _RELEASED).read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return 0  # read again what was read before: a repeated number is harmless


def _locked(folder: Path) -> int:
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as fault:
        os.close(handle)
        raise StewardError(
            "another process writes to this spool",
            where=str(folder),
            hint="stop that one, or name another folder",
        ) from fault
    return handle


def _refused(folder: Path, fault: OSError) -> StewardError:
    problem = f"nothing can be kept here: {(fault.strerror or str(fault)).lower()}"
    hint = "the user that runs steward needs to write here, and room on this disk"
    kind = StewardError if fault.errno in _PERMANENT else TemporaryError
    return kind(problem, where=str(folder), hint=hint)
