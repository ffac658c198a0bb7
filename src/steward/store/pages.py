"""Reads rows straight from the pages of a SQLite file that SQLite itself refuses to open.

Format: https://www.sqlite.org/fileformat2.html. Every page is looked at on its own, so one broken
page, even the first, costs only the rows on it. What comes out may be garbage: callers check it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["PAGE_BYTES", "Cell", "PageFile", "Value"]

Value = int | float | str | bytes | None
Cell = tuple[int | None, tuple[Value, ...]]  # a table row has a row id, an index key has none

PAGE_BYTES = 4096  # of every file that we make: what its header says may be damaged too
_FIRST_PAGE_HEADER_BYTES = 100
_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR = 0x0D, 0x0A, 0x02
_GARBAGE = (IndexError, struct.error, UnicodeDecodeError, ValueError)
_INT_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_WAL_HEADER_BYTES, _WAL_FRAME_BYTES = 32, 24
_WAL_LITTLE, _WAL_BIG = 0x377F0682, 0x377F0683


class PageFile:
    """The pages of a database as its last committed transaction left them."""

    def __init__(self, file: BinaryIO, wal: bytes) -> None:
        self._file = file
        self._newer = dict(_committed(wal))
        self._count = max(file.seek(0, 2) // PAGE_BYTES, *self._newer, 0)

    @classmethod
    def cells(cls, path: Path) -> Iterator[Cell]:
        """Give every table row and every index key in the file, in the order of its pages."""
        wal = path.with_name(path.name + "-wal")
        with path.open("rb") as file:
            pages = cls(file, wal.read_bytes() if wal.exists() else b"")
            for number in range(1, pages._count + 1):
                yield from pages._cells(number)

    def _page(self, number: int) -> bytes:
        if number in self._newer:
            return self._newer[number]
        self._file.seek((number - 1) * PAGE_BYTES)
        return self._file.read(PAGE_BYTES)

    def _cells(self, number: int) -> Iterator[Cell]:
        page = self._page(number)
        start = _FIRST_PAGE_HEADER_BYTES if number == 1 else 0
        if len(page) < PAGE_BYTES or page[start] not in (
            _TABLE_LEAF,
            _INDEX_LEAF,
            _INDEX_INTERIOR,
        ):
            return
        kind = page[start]
        pointers = start + (12 if kind == _INDEX_INTERIOR else 8)
        count = min(
            int.from_bytes(page[start + 3 : start + 5], "big"), (PAGE_BYTES - pointers) // 2
        )
        for at in struct.unpack_from(f">{count}H", page, pointers):
            try:
                yield self._cell(page, at, kind)
            except _GARBAGE:
                continue  # the caller counts what is missing by its gaps in `seq`

    def _cell(self, page: bytes, at: int, kind: int) -> Cell:
        if kind == _INDEX_INTERIOR:
            at += 4
        length, at = _varint(page, at)
        if kind == _TABLE_LEAF:
            rowid, at = _varint(page, at)
            return rowid, _record(self._payload(page, at, length, most=PAGE_BYTES - 35))
        most = (PAGE_BYTES - 12) * 64 // 255 - 23
        return None, _record(self._payload(page, at, length, most=most))

    def _payload(self, page: bytes, at: int, length: int, *, most: int) -> bytes:
        if length <= most:
            return page[at : at + length]
        if length > self._count * PAGE_BYTES:
            raise ValueError("longer than the file")
        least = (PAGE_BYTES - 12) * 32 // 255 - 23
        local = least + (length - least) % (PAGE_BYTES - 4)
        local = local if local <= most else least
        parts, missing = [page[at : at + local]], length - local
        (following,) = struct.unpack_from(">I", page, at + local)
        while missing > 0:
            page = self._page(following) if following else b""
            (following,) = struct.unpack_from(">I", page)
            parts.append(page[4 : 4 + min(missing, PAGE_BYTES - 4)])
            missing -= PAGE_BYTES - 4
        return b"".join(parts)


def _committed(wal: bytes) -> Iterator[tuple[int, bytes]]:
    """Give the pages that the write-ahead log holds, oldest first, up to its last commit."""
    if len(wal) < _WAL_HEADER_BYTES:
        return
    magic, salts = int.from_bytes(wal[:4], "big"), wal[16:24]
    if magic not in (_WAL_LITTLE, _WAL_BIG):
        return
    order = "<" if magic == _WAL_LITTLE else ">"
    sums = _wal_sum(wal[:24], (0, 0), order)
    waiting: list[tuple[int, bytes]] = []
    step = _WAL_FRAME_BYTES + PAGE_BYTES
    for at in range(_WAL_HEADER_BYTES, len(wal) - step + 1, step):
        head, page = wal[at : at + _WAL_FRAME_BYTES], wal[at + _WAL_FRAME_BYTES : at + step]
        sums = _wal_sum(page, _wal_sum(head[:8], sums, order), order)
        if head[8:16] != salts or head[16:24] != struct.pack(">2I", *sums):
            return
        waiting.append((int.from_bytes(head[:4], "big"), page))
        if head[4:8] != bytes(4):  # only the last page of a transaction states the file's size
            yield from waiting
            waiting = []


def _wal_sum(part: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(part) // 4}I", part)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


def _varint(page: bytes, at: int) -> tuple[int, int]:
    value = 0
    for step in range(8):
        byte = page[at + step]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + step + 1
    return value << 8 | page[at + 8], at + 9


def _record(payload: bytes) -> tuple[Value, ...]:
    end, at = _varint(payload, 0)
    place, values = end, []
    while at < end:
        serial, at = _varint(payload, at)
        value, place = _value(payload, place, serial)
        values.append(value)
    return tuple(values)


def _value(payload: bytes, at: int, serial: int) -> tuple[Value, int]:
    if serial in (0, 8, 9):
        return {0: None, 8: 0, 9: 1}[serial], at
    if serial == 7:
        return struct.unpack_from(">d", payload, at)[0], at + 8
    if serial >= 12:
        end = at + (serial - 12) // 2
        raw = payload[at:end]
        if end > len(payload):
            raise ValueError("longer than its cell")
        return (raw.decode() if serial % 2 else raw), end
    size = _INT_BYTES.get(serial, 0)
    if not size or at + size > len(payload):
        raise ValueError("no such type of number")
    return int.from_bytes(payload[at : at + size], "big", signed=True), at + size
