"""Opens what a log is kept in: a file, a pipe, packed or not; always a piece at a time.

What is packed is recognised by how it begins, and unpacked in pieces of bounded size: a small
file that unpacks to terabytes costs time, never memory.
"""

from __future__ import annotations

import bz2
import codecs
import io
import lzma
import mmap
import os
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import cramjam

from steward.errors import StewardError

__all__ = ["NOT_UNPACKED", "PIECE_BYTES", "UTF_16", "Source", "as_utf8", "pieces", "where"]

Source = Path | BinaryIO
PIECE_BYTES = 4 * 2**20
_PACKED_BYTES = 256 * 1024
_ZSTD = b"\x28\xb5\x2f\xfd"
NOT_UNPACKED = {b"\x04\x22\x4d\x18": "lz4", b"PK\x03\x04": "zip"}
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # how such a text begins


class _Zlib:
    """Gives zlib's unpacking the shape that those of bzip2 and xz have."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(31)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    def more(self, packed: bytes, most: int) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + packed, most)


class _Plain:
    """Bzip2 and xz, as Python has them."""

    def __init__(self, inner: bz2.BZ2Decompressor | lzma.LZMADecompressor) -> None:
        self._inner = inner

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def needs_input(self) -> bool:
        return self._inner.needs_input

    def more(self, packed: bytes, most: int) -> bytes:
        return self._inner.decompress(packed, most)


_UNPACKERS: dict[bytes, Callable[[], _Zlib | _Plain]] = {
    b"\x1f\x8b": _Zlib,
    b"BZh": lambda: _Plain(bz2.BZ2Decompressor()),
    b"\xfd7zXZ\x00": lambda: _Plain(lzma.LZMADecompressor()),
}


def where(source: Source) -> str:
    """Return the name of a source in messages."""
    return str(source) if isinstance(source, Path) else str(getattr(source, "name", "a stream"))


def pieces(source: Source, notes: list[str], *, size: int = PIECE_BYTES) -> Iterator[bytes]:
    """Yield what a source holds, unpacked, in pieces of at most `size` bytes.

    A packed file that is damaged or cut gives what could be read of it; `notes` has the reason.
    """
    if isinstance(source, Path):
        try:
            file: BinaryIO = source.open("rb", buffering=0)
        except OSError as fault:
            problem = f"it cannot be read: {fault.strerror}"
            raise StewardError(problem, where=str(source), hint="check path and rights") from fault
        with file:
            yield from _unpacked(file, notes, size)
    else:
        yield from _unpacked(source, notes, size)


def as_utf8(raw: Iterable[bytes]) -> Iterator[bytes]:
    """Yield text as UTF-8, without the mark that Windows puts before it; it writes UTF-16, too."""
    decoder: codecs.IncrementalDecoder | None = None
    for number, piece in enumerate(raw):
        if number == 0 and piece.startswith(UTF_16):
            decoder = codecs.getincrementaldecoder("utf-16")("replace")
        if decoder is not None:
            yield decoder.decode(piece).encode("utf-8", "replace")
        else:
            yield piece.removeprefix(codecs.BOM_UTF8) if number == 0 else piece
    if decoder is not None:
        yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def _read(file: BinaryIO, size: int) -> bytes:
    read = getattr(file, "read1", file.read)  # of a pipe, what is there: it may stay open
    try:
        return read(size) or b""
    except OSError as fault:
        raise StewardError(f"it cannot be read: {fault.strerror}", where=where_of(file)) from fault


def where_of(file: BinaryIO) -> str:
    """Return the name of an open file."""
    return str(getattr(file, "name", "a stream"))


def _unpacked(file: BinaryIO, notes: list[str], size: int) -> Iterator[bytes]:
    head = b""
    while len(head) < 6 and (more := _read(file, max(6, min(size, _PACKED_BYTES)))):
        head += more
    for magic, unpacker in _UNPACKERS.items():
        if head.startswith(magic):
            yield from _stream(file, head, unpacker, notes, size)
            return
    if head.startswith(_ZSTD):
        yield from _zstd(file, head, notes, size)
        return
    for magic, kind in NOT_UNPACKED.items():
        if head.startswith(magic):
            notes.append(f"{where_of(file)}: not read, since {kind} is not known: unpack it first")
            return
    while head:
        yield head
        head = _read(file, size)


def _stream(
    file: BinaryIO,
    packed: bytes,
    unpacker: Callable[[], _Zlib | _Plain],
    notes: list[str],
    size: int,
) -> Iterator[bytes]:
    inner = unpacker()
    try:
        while True:
            piece = inner.more(packed, size)
            if piece:
                yield piece
            packed = b""
            if inner.eof:  # packed files can be put one after another
                packed = inner.unused_data or _read(file, _PACKED_BYTES)
                if not packed.strip(b"\0"):
                    return
                inner = unpacker()
            elif inner.needs_input():
                packed = _read(file, _PACKED_BYTES)
                if not packed:
                    notes.append(f"{where_of(file)}: it ends in the middle of packed bytes")
                    return
    except (zlib.error, OSError, lzma.LZMAError, EOFError) as fault:
        notes.append(f"{where_of(file)}: the packed bytes are damaged: {fault}")


def _zstd(file: BinaryIO, head: bytes, notes: list[str], size: int) -> Iterator[bytes]:
    """Unpack zstd through a pipe: the library writes only as fast as we read."""
    with tempfile.TemporaryFile() as kept:
        kept.write(head)
        while more := _read(file, PIECE_BYTES):
            kept.write(more)
        kept.flush()
        with mmap.mmap(kept.fileno(), 0, access=mmap.ACCESS_READ) as packed:
            out, into = os.pipe()
            faults: list[str] = []
            worker = threading.Thread(target=_pour, args=(packed, into, faults), daemon=True)
            worker.start()
            try:
                with io.FileIO(out) as pipe:
                    while piece := _filled(pipe, size):
                        yield piece
            finally:
                worker.join()
            notes += [f"{where_of(file)}: the packed bytes are damaged: {each}" for each in faults]


def _filled(pipe: io.FileIO, size: int) -> bytes:
    parts, missing = [], size
    while missing and (part := pipe.read(missing)):
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def _pour(packed: mmap.mmap, into: int, faults: list[str]) -> None:
    target = None
    try:
        try:
            target = cramjam.File(
                f"/proc/self/fd/{into}", read=False, write=True, truncate=False, append=False
            )
        finally:
            os.close(into)  # the reader waits until all ends for writing are closed
        cramjam.zstd.decompress_into(packed, target)
    except (cramjam.DecompressionError, OSError) as fault:
        if "Broken pipe" not in str(fault):  # the reader has enough
            faults.append(str(fault))
    finally:
        del target  # which closes it, also where a fault still holds this frame
