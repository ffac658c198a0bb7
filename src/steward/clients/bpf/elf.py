"""Finds functions that a library exports: the offset in the file at which each begins."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Collection
from pathlib import Path

from steward.errors import StewardError

__all__ = ["functions_in"]

_LOADED = 1  # a program header: this part of the file is mapped
_DYNAMIC_SYMBOLS = 11
_FUNCTION, _INDIRECT = 2, 10


def functions_in(path: Path, wanted: Collection[str]) -> dict[str, int]:
    """Return the file offset of each wanted function that the library exports."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as blob:
            return _found(blob, {name.encode(): name for name in wanted})
    except (OSError, ValueError, OverflowError, struct.error, IndexError) as fault:
        raise StewardError(f"not a library that can be read: {fault}", where=str(path)) from fault


def _found(blob: mmap.mmap, wanted: dict[bytes, str]) -> dict[str, int]:
    if blob[:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit ELF file")
    segments_at, sections_at = struct.unpack_from("<QQ", blob, 32)
    segment_size, segments, section_size, sections = struct.unpack_from("<HHHH", blob, 54)
    headers = [
        struct.unpack_from("<IIQQQQIIQQ", blob, sections_at + each * section_size)
        for each in range(sections)
    ]
    loaded = [
        segment
        for each in range(segments)
        if (segment := struct.unpack_from("<IIQQQQ", blob, segments_at + each * segment_size))[0]
        == _LOADED
    ]
    found: dict[str, int] = {}
    for _, kind, _, _, start, size, link, _, _, _ in headers:
        if kind == _DYNAMIC_SYMBOLS:
            names_at, names_size = headers[link][4], headers[link][5]
            names = blob[names_at : names_at + names_size]
            for name, about, _, place, address, _ in struct.iter_unpack(
                "<IBBHQQ", blob[start : start + size]
            ):
                if place and about & 15 in (_FUNCTION, _INDIRECT):
                    text = names[name : names.index(b"\0", name)]
                    if text in wanted:
                        found[wanted[text]] = _in_file(address, loaded)
    return found


def _in_file(address: int, loaded: list[tuple[int, ...]]) -> int:
    for _, _, offset, start, _, size in loaded:
        if start <= address < start + size:
            return address - start + offset
    raise ValueError(f"address {address:#x} is in no part of the file")
