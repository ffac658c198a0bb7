"""Notice damaged Parquet files before they are decoded, and set them aside or skip them.

Decoding damaged bytes can panic, abort the interpreter, or return wrong values in silence, so a
checksum comes first. A file carries two in its name, `flushed-RANDOM-FFFFFFFFWWWWWWWW.parquet`:
one of its footer, which is verified when files are listed, and one of the whole file, which is
verified when rows are read. Each is verified once for a path, time of change and size.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

import xxhash
from polars.exceptions import ComputeError, PanicException, PolarsError

from steward.store.atomic import make_folder

__all__ = [
    "BROKEN",
    "DAMAGED",
    "Note",
    "NoteOnly",
    "check_footer",
    "checksums_of",
    "intact",
    "panics_as_errors",
    "set_aside",
]

Note = Callable[[str], None]


class NoteOnly:
    """Notes each damage once for a reader: damaged files are skipped and stay where they are."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._known: set[str] = set()

    def __call__(self, text: str) -> None:
        if text not in self._known:
            self._known.add(text)
            self._note(text)


BROKEN = PolarsError  # what reading a broken file raises, within `panics_as_errors`
DAMAGED = "damaged"  # the folder, beside the partitions, into which broken files are moved
_CHECKSUMS = re.compile(r"-[0-9a-f]{16}-([0-9a-f]{8})([0-9a-f]{8})\.parquet$")
_PARTITION = re.compile(r"(date|hour)=")
_CHUNK_BYTES = 1 << 20
_END_BYTES = 8  # the length of the footer and b"PAR1"


def checksums_of(content: bytes | memoryview) -> str:
    """Return the checksums of a new file as its name carries them."""
    footer = content[-_footer_bytes(content[-_END_BYTES:]) :]
    return _digest(footer) + _digest(content)


def check_footer(file: Path) -> None:
    """Raise `BROKEN` if the footer of a file does not match the checksum in its name."""
    named = _CHECKSUMS.search(file.name)
    if named and _footer_checksum(file, *_stamp(file)) != named[1]:
        raise ComputeError("the checksum of its footer does not match: bytes were changed or lost")


def intact(files: Sequence[Path], note: Note) -> list[Path]:
    """Return the files whose bytes match their checksums; set the others aside, or skip them.

    A file without checksums was written by something else, and is taken as it is.
    """
    good = []
    for file in files:
        named = _CHECKSUMS.search(file.name)
        with suppress(FileNotFoundError):  # compaction was faster: the reader notices
            if named and _whole_checksum(file, *_stamp(file)) != named[2]:
                set_aside(file, ComputeError("its checksum does not match"), note)
                continue
        good.append(file)
    return good


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turn a polars panic into `BROKEN`: as a `BaseException` it would pass every handler."""
    try:
        yield
    except PanicException as panic:
        raise ComputeError(f"polars panicked: {panic}") from panic


def set_aside(file: Path, fault: BaseException, note: Note) -> None:
    """Move a broken file to the folder `damaged` of its table, and note that.

    For a reader, with `NoteOnly`, it stays where it is.
    """
    why = " ".join(str(fault).split())[:200]
    if isinstance(note, NoteOnly):
        note(f"{file} is damaged ({why}) and was skipped")
        return
    partition = [each for each in file.parents if _PARTITION.match(each.name)]
    aside = partition[-1].parent / DAMAGED if partition else file.parent / DAMAGED
    parts = [each.name.partition("=")[2] for each in reversed(partition)]
    name = "-".join([*parts, f"{file.name}.{DAMAGED}"])  # no pattern for Parquet files fits it
    try:
        make_folder(aside)
        file.rename(aside / name)
    except OSError as refused:
        note(f"{file} is damaged ({why}) and was skipped; moving it failed: {refused.strerror}")
    else:
        note(f"{file} is damaged ({why}); it was moved to {aside / name}")


def _stamp(file: Path) -> tuple[int, int]:
    state = file.stat()
    return state.st_mtime_ns, state.st_size


def _digest(content: bytes | memoryview) -> str:
    return f"{xxhash.xxh3_64_intdigest(content) & 0xFFFF_FFFF:08x}"


def _footer_bytes(end: bytes | memoryview) -> int:
    return int.from_bytes(end[:4], "little") + _END_BYTES


@lru_cache(maxsize=65_536)
def _footer_checksum(file: Path, _changed_ns: int, size: int) -> str:
    with file.open("rb", buffering=0) as stream:
        stream.seek(max(0, size - _END_BYTES))
        footer_bytes = min(size, _footer_bytes(stream.read(_END_BYTES)))
        stream.seek(-footer_bytes, os.SEEK_END)
        return _digest(stream.read(footer_bytes))


@lru_cache(maxsize=65_536)
def _whole_checksum(file: Path, _changed_ns: int, _size: int) -> str:
    digest = xxhash.xxh3_64()
    with file.open("rb", buffering=0) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return f"{digest.intdigest() & 0xFFFF_FFFF:08x}"
