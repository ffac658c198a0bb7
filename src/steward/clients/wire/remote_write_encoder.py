"""Prometheus remote write 1.0, outgoing. Nothing here is compiled, for the agent's sake."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from steward.clients.wire.compression import pack_snappy

__all__ = ["WriteSeries", "encode_write", "field", "number"]

# labels in any order, times in ms, values
WriteSeries = tuple[
    Mapping[str, str], Sequence[int] | NDArray[np.int64], Sequence[float] | NDArray[np.float64]
]

_SIX_BYTES = (1 << 35, 1 << 42)  # times from 1971 to 2109 take six bytes, and all samples 18


def encode_write(written: Iterable[WriteSeries]) -> bytes:
    """Encode series with their samples as the body of one request; labels are sorted."""
    series = list(written)
    if not series:
        return pack_snappy(b"")
    times = np.concatenate([np.asarray(each[1], np.int64) for each in series])
    values = np.concatenate([np.asarray(each[2], "<f8") for each in series])
    low, high = _SIX_BYTES
    usual = bool(((times >= low) & (times < high)).all())
    rows = _rows(times, values) if usual else b""
    parts: list[bytes] = []
    at = 0
    for labels, times_ms, _ in series:
        end = at + len(times_ms)
        samples = (
            rows[18 * at : 18 * end]
            if usual
            else b"".join(map(_sample, times[at:end].tolist(), values[at:end]))
        )
        parts.append(field(0x0A, _labels(tuple(sorted(labels.items()))) + samples))
        at = end
    return pack_snappy(b"".join(parts))


def _rows(times: NDArray[np.int64], values: NDArray[np.float64]) -> bytes:
    """Encode all samples of a request at once."""
    rows = np.empty((len(times), 18), np.uint8)
    rows[:, :3] = (0x12, 16, 0x09)
    rows[:, 3:11] = values.view(np.uint8).reshape(-1, 8)
    rows[:, 11] = 0x10
    for place in range(6):
        more = 0x80 if place < 5 else 0
        rows[:, 12 + place] = (times >> (7 * place)) & 0x7F | more
    return rows.tobytes()


def _sample(t_ms: int, value: np.float64) -> bytes:
    return field(0x12, b"\x09" + value.tobytes() + b"\x10" + number(t_ms))


@lru_cache(maxsize=65536)
def _labels(labels: tuple[tuple[str, str], ...]) -> bytes:
    return b"".join(field(0x0A, _pair(name, value)) for name, value in labels)


def number(value: int) -> bytes:
    """Encode a number as protobuf does; negative ones take ten bytes."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _pair(name: str, value: str) -> bytes:
    return field(0x0A, name.encode()) + field(0x12, value.encode())


def field(tag: int, data: bytes) -> bytes:
    """Encode bytes as a field of a message."""
    return bytes((tag,)) + number(len(data)) + data
