"""Compiled hash table from the bytes of a series' name to a small number.

Looking up costs no Python object. Names are compared byte by byte, so two series are never taken
for one; the hash has a secret start, so that no client can choose names that collide.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.clients.wire.samples import WireSamples
from steward.compiled import njit

__all__ = ["SeriesTable"]

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
UNKNOWN = -1


class SeriesTable:
    """Numbers series from 0 in the order in which they were added. Not for two threads at once."""

    def __init__(self) -> None:
        self._seed = np.uint64(secrets.randbits(64))
        self._count = 0
        self._slots: Ints = np.full(1024, UNKNOWN, np.int64)
        self._offsets: Ints = np.zeros(1024, np.int64)
        self._arena: Bytes = np.zeros(65536, np.uint8)

    def __len__(self) -> int:
        return self._count

    def find(self, samples: WireSamples) -> Ints:
        """Return the number of each series of a message; -1 for those that are not known."""
        found = np.empty(len(samples.starts), np.int64)
        _find(
            samples.buffer,
            samples.starts,
            samples.ends,
            self._seed,
            self._slots,
            self._offsets,
            self._arena,
            found,
        )
        return found

    def add(self, key: bytes) -> int:
        """Add a series that is not known yet; return its number."""
        number = self._count
        end = int(self._offsets[number]) + len(key)
        self._arena = _grown(self._arena, end)
        self._offsets = _grown(self._offsets, number + 2)
        self._arena[end - len(key) : end] = np.frombuffer(key, np.uint8)
        self._offsets[number + 1] = end
        self._count += 1
        if 2 * self._count > len(self._slots):
            self._slots = np.full(4 * len(self._slots), UNKNOWN, np.int64)
            _fill(self._slots, self._offsets, self._arena, self._seed, 0, self._count)
        else:
            _fill(self._slots, self._offsets, self._arena, self._seed, number, self._count)
        return number

    def key(self, number: int) -> bytes:
        """Return the bytes of a series."""
        return self._arena[self._offsets[number] : self._offsets[number + 1]].tobytes()


def _grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    if size <= len(array):
        return array
    bigger = np.zeros(max(size, 2 * len(array)), array.dtype)
    bigger[: len(array)] = array
    return bigger


@njit
def _uint64_at(data: Bytes, at: int) -> np.uint64:
    """Return eight bytes as one number; without signs this becomes a single load."""
    place = np.uintp(at)
    value = np.uint64(0)
    for byte in range(8):
        value |= np.uint64(data[place + np.uintp(byte)]) << np.uint64(8 * byte)
    return value


@njit
def _hash(data: Bytes, start: int, end: int, seed: np.uint64) -> np.uint64:
    value, at = seed, start
    while at + 8 <= end:
        value = (value ^ _uint64_at(data, at)) * np.uint64(0x9E3779B97F4A7C15)
        value ^= value >> np.uint64(29)
        at += 8
    rest = np.uint64(end - at)
    while at < end:
        rest = (rest << np.uint64(8)) | np.uint64(data[at])
        at += 1
    return (value ^ rest) * np.uint64(0xC2B2AE3D27D4EB4F)


@njit
def _same(a: Bytes, at: int, b: Bytes, start: int, length: int) -> bool:
    differs = np.uint8(0)
    for place in range(length):  # to the end: the processor compares 32 bytes at once then
        differs |= a[np.uintp(at + place)] ^ b[np.uintp(start + place)]
    return bool(differs == 0)


@njit
def _find(  # noqa: PLR0913, PLR0917 - compiled
    data: Bytes,
    starts: Ints,
    ends: Ints,
    seed: np.uint64,
    slots: Ints,
    offsets: Ints,
    arena: Bytes,
    found: Ints,
) -> None:
    """Write the number of each name into `found`."""
    mask = np.uint64(len(slots) - 1)
    for row in range(len(starts)):
        start, length = starts[row], ends[row] - starts[row]
        slot = (_hash(data, start, ends[row], seed) >> np.uint64(32)) & mask
        while True:
            number = slots[slot]
            if number < 0:
                break
            at = offsets[number]
            same_length = offsets[number + 1] - at == length
            if same_length and _same(arena, at, data, start, length):
                break
            slot = (slot + np.uint64(1)) & mask
        found[row] = number


@njit
def _fill(slots: Ints, offsets: Ints, arena: Bytes, seed: np.uint64, first: int, last: int) -> None:
    """Put the numbers `first..last-1` into the slots."""
    mask = np.uint64(len(slots) - 1)
    for number in range(first, last):
        slot = (_hash(arena, offsets[number], offsets[number + 1], seed) >> np.uint64(32)) & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = number
