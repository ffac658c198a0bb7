"""Prometheus remote read: raw samples of the past, in one answer of kind SAMPLES."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from steward.clients.wire.compression import pack_snappy, unpack_snappy
from steward.clients.wire.remote_write import decode_series, field, number
from steward.clients.wire.samples import WireLimits, WireSamples
from steward.errors import StewardError

__all__ = ["decode_read", "encode_read"]

_WHAT = "remote read"
_MATCHERS = {"=": 0, "!=": 1, "=~": 2, "!~": 3}


def encode_read(matchers: Mapping[str, tuple[str, str]], *, from_ms: int, to_ms: int) -> bytes:
    """Encode one question: `{label: (operator, value)}` between two times."""
    query = b"\x08" + number(from_ms) + b"\x10" + number(to_ms)
    for name, (operator, value) in matchers.items():
        if operator not in _MATCHERS:
            problem = f"'{operator}' is not an operator; possible: {', '.join(_MATCHERS)}"
            raise StewardError(problem, where=_WHAT)
        kind = b"\x08" + number(_MATCHERS[operator])
        query += field(0x1A, kind + field(0x12, name.encode()) + field(0x1A, value.encode()))
    return pack_snappy(field(0x0A, query))


def decode_read(body: bytes, limits: WireLimits | None = None) -> WireSamples:
    """Decode the answer to one question."""
    limits = limits or WireLimits(samples=50_000_000, series=5_000_000, body_bytes=2**30)
    plain = unpack_snappy(body, most_bytes=limits.body_bytes)
    results = list(_results(plain))
    if len(results) != 1:
        raise StewardError(f"{len(results)} answers to one question", where=_WHAT)
    return decode_series(results[0], limits)


def _results(plain: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(plain):
        tag, at = _varint(plain, at)
        length, at = _varint(plain, at)
        if tag != 0x0A or length > len(plain) - at:
            raise StewardError(f"is not a ReadResponse (byte {at})", where=_WHAT)
        yield plain[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(at, min(at + 10, len(data))):
        value |= (data[place] & 0x7F) << 7 * (place - at)
        if data[place] < 0x80:
            return value, place + 1
    raise StewardError(f"is not a ReadResponse (byte {at})", where=_WHAT)
