"""Compiled steps through protobuf: numbers, lengths, fields that are not ours.

All positions are checked before anything is read: a message may lie about every length in it.
A function that fails returns a position below zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.errors import StewardError

__all__ = [
    "BAD_FIELD",
    "CUT",
    "LABELS",
    "LABEL_BYTES",
    "SAMPLES",
    "SERIES",
    "fault_at",
    "fixed64",
    "skip",
    "varint",
]

Bytes = NDArray[np.uint8]

CUT, BAD_FIELD, SERIES, SAMPLES, LABELS, LABEL_BYTES = -1, -2, -3, -4, -5, -6
_MESSAGES = {
    CUT: "is cut off, or a length in it leads beyond its end",
    BAD_FIELD: "has a field of a kind that does not belong there",
    SERIES: "holds too many series",
    SAMPLES: "holds too many samples",
    LABELS: "holds a series with too many labels",
    LABEL_BYTES: "holds a series whose labels are too long",
}


def fault_at(code: int, offset: int, *, what: str) -> StewardError:
    """Return the error for a malformed message, with its byte."""
    limits = code <= SERIES
    hint = "send smaller requests, or fewer labels" if limits else "is it really this format?"
    return StewardError(f"{_MESSAGES[code]} (byte {offset})", where=what, hint=hint)


@njit
def varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Read a number of up to ten bytes; return it and the position after it."""
    value, shift = 0, 0
    while at < end and shift < 70:
        byte = int(np.int64(data[at]))
        at += 1
        if shift < 64:
            value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return 0, CUT


@njit
def fixed64(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Read eight bytes as they are; return them as a number and the position after them."""
    if at + 8 > end:
        return 0, CUT
    value = 0
    for place in range(8):
        value |= int(np.int64(data[at + place])) << (8 * place)
    return value, at + 8


@njit
def skip(data: Bytes, at: int, end: int, kind: int) -> int:
    """Skip the value of an unused field; return the position after it."""
    if kind == 0:
        return varint(data, at, end)[1]
    if kind == 2:
        length, at = varint(data, at, end)
        if at < 0 or length < 0 or length > end - at:
            return CUT
        return at + length
    size = 8 if kind == 1 else 4 if kind == 5 else -1
    if size < 0:
        return BAD_FIELD
    return at + size if at + size <= end else CUT
