"""A file of JSON lines that only grows. A line that a crash has torn is skipped and counted."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from steward.store.files.damage import Note
from steward.store.files.parquet import cannot_write

__all__ = ["JsonLines", "read_json_lines"]

_MAX_WAITING = 100_000
Record = Mapping[str, object]


class JsonLines:
    """Records that wait for a flush, then lie durably in one file, in the order they came."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._waiting: list[bytes] = []
        self._given_up = 0
        self._lock = threading.Lock()

    def append(self, records: Iterable[Record]) -> None:
        """Take new records; the next flush makes them durable."""
        lines = [_line(record) for record in records]
        with self._lock:
            self._waiting += lines
            too_many = max(0, len(self._waiting) - _MAX_WAITING)
            del self._waiting[:too_many]
            self._given_up += too_many

    def flush(self) -> None:
        """Write all that waits, whole or not at all; what the disk refuses goes on waiting."""
        with self._lock:
            if not self._waiting:
                return
            try:
                _append_durably(self._file, b"".join(self._waiting))
            except OSError as fault:
                raise cannot_write(self._file, fault) from fault
            self._waiting = []

    def damage(self) -> tuple[str, ...]:
        """Say what was given up since this was opened."""
        said = f"{self._given_up} lines of {self._file.name} were given up: the disk took no more"
        return (said,) if self._given_up else ()


def read_json_lines(file: Path, note: Note) -> Iterator[dict[str, object]]:
    """Give the records of a file; broken lines are counted and said once."""
    broken = 0
    try:
        with file.open("rb") as stream:
            for line in stream:
                record = _record(line)
                if record is not None:
                    yield record
                elif line.strip():
                    broken += 1
    except FileNotFoundError:
        return
    if broken:
        note(f"{file}: {broken} broken lines were skipped")


def _line(record: Record) -> bytes:
    return (
        json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
        + b"\n"
    )


def _record(line: bytes) -> dict[str, object] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _append_durably(file: Path, content: bytes) -> None:
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        size = os.fstat(handle).st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":
            content = b"\n" + content  # a crash has torn the last line: it must not tear ours too
        try:
            _write_at(handle, content, size)
            os.fsync(handle)
        except OSError:
            os.ftruncate(handle, size)  # half a line is worth nothing
            raise
    finally:
        os.close(handle)


def _write_at(handle: int, content: bytes, offset: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(handle, view, offset)
        offset += written
        view = view[written:]
