"""One file of a spool: a head, then records one after the other.

A record is a mark, its length, its number, a checksum and the body. The checksum starts from a
random number in the head: bytes that a client sends cannot be mistaken for a record, not even
when the bytes around it are damaged.
"""

from __future__ import annotations

import os
import secrets
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from steward.store.atomic import sync_folder

__all__ = ["HEAD_BYTES", "RECORD_BYTES", "BadHeadError", "ScannedRecord", "Segment", "SpoolRecord"]

_HEAD = struct.Struct("<8sII")  # what it is, version, salt
_RECORD = struct.Struct("<4sIQI")  # mark, length, number, checksum
_KIND, _VERSION, _MARK = b"STWSPOOL", 1, b"\xf5REC"
HEAD_BYTES = _HEAD.size
RECORD_BYTES = _RECORD.size
_ENDING = ".spool"


class BadHeadError(Exception):
    """The file does not begin like a segment: nothing in it can be checked."""


@dataclass(frozen=True, slots=True)
class SpoolRecord:
    """A body and its number."""

    number: int
    body: bytes


@dataclass(frozen=True, slots=True)
class ScannedRecord:
    """A record and where the next one begins. Without a record: damage up to there."""

    record: SpoolRecord | None
    next_at: int


class Segment:
    """A file that is open. `size` is what is written, `safe_size` what has been synced."""

    def __init__(self, path: Path, handle: int, *, salt: int, size: int) -> None:
        self.path = path
        self.first = int(path.stem)
        self.size = self.safe_size = size
        self._handle = handle
        self._salt = salt

    @classmethod
    def create(cls, folder: Path, first: int) -> Segment:
        """Make an empty segment whose records begin at number `first`; durable when it returns."""
        path = folder / f"{first:020d}{_ENDING}"
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        salt = secrets.randbits(32)
        try:
            os.write(handle, _HEAD.pack(_KIND, _VERSION, salt))
            os.fsync(handle)
            sync_folder(folder)
        except OSError:
            os.close(handle)
            path.unlink(missing_ok=True)
            raise
        return cls(path, handle, salt=salt, size=HEAD_BYTES)

    @classmethod
    def open(cls, path: Path) -> Segment:
        """Open a segment that is there. Raises `BadHeadError` if it is not one."""
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        head = os.pread(handle, HEAD_BYTES, 0)
        size = os.fstat(handle).st_size
        if len(head) < HEAD_BYTES or _HEAD.unpack(head)[:2] != (_KIND, _VERSION):
            os.close(handle)
            raise BadHeadError
        return cls(path, handle, salt=_HEAD.unpack(head)[2], size=size)

    @staticmethod
    def paths(folder: Path) -> list[Path]:
        """Return the segments of a folder, oldest first."""
        found = (path for path in folder.glob(f"*{_ENDING}") if path.stem.isdigit())
        return sorted(found, key=lambda path: int(path.stem))

    def write(self, number: int, body: bytes) -> None:
        """Put a record at the end. Raises with the file as it was."""
        start = _RECORD.pack(_MARK, len(body), number, self._checksum(number, body))
        at, rest = self.size, memoryview(start + body)
        try:
            while rest:
                done = os.pwrite(self._handle, rest, at)
                at, rest = at + done, rest[done:]
        except OSError:
            self.cut(self.size)
            raise
        self.size = at

    def sync(self) -> None:
        """Make what was written durable. Takes long: call it without holding locks."""
        os.fdatasync(self._handle)

    def cut(self, size: int) -> None:
        """Truncate the file to `size`."""
        os.ftruncate(self._handle, size)
        self.size = size
        self.safe_size = min(self.safe_size, size)

    def records(self, at: int, until: int) -> Iterator[ScannedRecord]:
        """Yield the records between two offsets; damage is stepped over and reported."""
        while at < until:
            found = self._record_at(at, until)
            if found is None:
                next_at = self._next_good(at + 1, until)
                yield ScannedRecord(None, next_at)
                at = next_at
            else:
                yield found
                at = found.next_at

    def remove(self) -> None:
        """Delete the file. Readers may finish: the last one closes it."""
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file, once. It must not be read afterwards."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __del__(self) -> None:
        self.close()

    def _record_at(self, at: int, until: int) -> ScannedRecord | None:
        start = os.pread(self._handle, RECORD_BYTES, at)
        if len(start) < RECORD_BYTES:
            return None
        mark, length, number, checksum = _RECORD.unpack(start)
        next_at = at + RECORD_BYTES + length
        if mark != _MARK or next_at > until:
            return None
        body = os.pread(self._handle, length, at + RECORD_BYTES)
        if len(body) < length or self._checksum(number, body) != checksum:
            return None
        return ScannedRecord(SpoolRecord(number, body), next_at)

    def _next_good(self, at: int, until: int) -> int:
        """Return where the next sound record begins, or the end."""
        rest = os.pread(self._handle, until - at, at)
        place = rest.find(_MARK)
        while place >= 0:
            if self._record_at(at + place, until) is not None:
                return at + place
            place = rest.find(_MARK, place + 1)
        return until

    def _checksum(self, number: int, body: bytes) -> int:
        return crc32(body, crc32(struct.pack("<QI", number, len(body)), self._salt))
