"""Prometheus remote write 1.0: one snappy block with a `WriteRequest`.

Field numbers are those of prometheus/prompb/remote.proto and types.proto. A series is known by
the bytes of its labels, just as its sender wrote them: they are read into Python once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.clients.wire.compression import unpack_snappy
from steward.clients.wire.protobuf_scan import (
    BAD_FIELD,
    CUT,
    LABEL_BYTES,
    LABELS,
    SAMPLES,
    SERIES,
    Bytes,
    fault_at,
    fixed64,
    skip,
    varint,
)
from steward.clients.wire.remote_write_encoder import WriteSeries, encode_write, field, number
from steward.clients.wire.samples import WireLimits, WireSamples
from steward.compiled import njit
from steward.errors import StewardError

__all__ = [
    "STALE_BITS",
    "WriteSeries",
    "decode_series",
    "decode_write",
    "encode_write",
    "field",
    "labels_of_key",
    "number",
]

STALE_BITS = 0x7FF0000000000002  # the NaN with which Prometheus marks the end of a series
_WHAT = "remote write"
_KINDS = ("exemplars", "histograms", "metadata")


def decode_write(body: bytes, limits: WireLimits | None = None) -> WireSamples:
    """Decode the body of a remote write request; raises `StewardError` with the byte at fault."""
    limits = limits or WireLimits()
    try:
        return decode_series(unpack_snappy(body, most_bytes=limits.body_bytes), limits)
    except StewardError as fault:
        raise StewardError(fault.problem, where=_WHAT, hint=fault.hint) from fault


def decode_series(plain: bytes, limits: WireLimits) -> WireSamples:
    """Decode series that lie one after the other, as requests and answers have them."""
    data = np.frombuffer(plain, dtype=np.uint8)
    most_samples = min(limits.samples, len(data) // 2)  # an empty sample takes two bytes
    most_series = min(limits.series, len(data) // 2)
    spans = np.empty((2, most_series + 1), np.int64)
    found = np.empty((3, most_samples + 1), np.int64)
    counts = np.zeros(2 + len(_KINDS), np.int64)
    bounds = np.array([most_series, most_samples, limits.labels, limits.label_bytes])
    at = _scan(data, bounds, spans, found, counts)
    if at < 0:
        raise fault_at(int(at), int(counts[0]), what=_WHAT)
    series, samples = int(counts[0]), int(counts[1])
    return WireSamples(
        buffer=data,
        starts=spans[0, :series],
        ends=spans[1, :series],
        series=found[0, :samples],
        t_ms=found[1, :samples],
        values=found[2, :samples].view(np.float64),
        skipped={name: int(n) for name, n in zip(_KINDS, counts[2:], strict=True) if n},
    )


@njit
def _scan(
    data: Bytes,
    bounds: NDArray[np.int64],
    spans: NDArray[np.int64],
    found: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> int:
    """Walk over a `WriteRequest`. Below zero is a fault, and `counts[0]` then where it is."""
    at, end = 0, len(data)
    while at < end:
        began = at
        tag, at = varint(data, at, end)
        if at > 0 and tag == 0x0A:
            length, at = varint(data, at, end)
            if at < 0 or length < 0 or length > end - at:
                counts[0] = began
                return CUT
            if counts[0] >= bounds[0]:
                counts[0] = began
                return SERIES
            code = _series(data, at, at + length, bounds, spans, found, counts)
            if code < 0:
                return code
            at += length
            continue
        if at > 0:
            counts[4] += (tag >> 3) == 3
            at = skip(data, at, end, tag & 7)
        if at < 0:
            counts[0] = began
            return at
    return at


@njit
def _series(  # noqa: C901, PLR0913, PLR0917 - one walk over one message; calls cost here
    data: Bytes,
    at: int,
    end: int,
    bounds: NDArray[np.int64],
    spans: NDArray[np.int64],
    found: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> int:
    series, labels, first, last = counts[0], 0, at, at
    while at < end:
        began = at
        tag, at = varint(data, at, end)
        code = at
        if at > 0 and (tag == 0x0A or tag == 0x12):  # noqa: PLR1714 - compiled
            length, at = varint(data, at, end)
            code = CUT if at < 0 or length < 0 or length > end - at else at
            if code > 0 and tag == 0x0A:
                labels += 1
                if labels == 1:
                    first, last = began, began
                if began != last or data[began] != 0x0A:
                    code = BAD_FIELD  # labels that do not lie together: no sender does that
                last = at + length
                if labels > bounds[2]:
                    code = LABELS
                elif last - first > bounds[3]:
                    code = LABEL_BYTES
            elif code > 0:
                if counts[1] >= bounds[1]:
                    code = SAMPLES
                else:
                    code = _sample(data, at, at + length, series, found, counts)
            at += length
        elif at > 0:
            counts[2] += (tag >> 3) == 3
            counts[3] += (tag >> 3) == 4
            code = at = skip(data, at, end, tag & 7)
        if code < 0:
            counts[0] = began
            return code
    spans[0, series] = first
    spans[1, series] = last
    counts[0] += 1
    return at


@njit
def _sample(
    data: Bytes,
    at: int,
    end: int,
    series: int,
    found: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> int:
    value, t_ms = 0, 0
    while at < end:
        tag, at = varint(data, at, end)
        if at < 0:
            return at
        if tag == 0x09:
            value, at = fixed64(data, at, end)
        elif tag == 0x10:
            t_ms, at = varint(data, at, end)
        else:
            at = skip(data, at, end, tag & 7)
        if at < 0:
            return at
    row = counts[1]
    found[0, row] = series
    found[1, row] = t_ms
    found[2, row] = value
    counts[1] = row + 1
    return 0


def labels_of_key(key: bytes) -> dict[str, str]:
    """Read the labels of a series: what a scan has already found to be well formed, as text."""
    labels: dict[str, str] = {}
    at = 0
    while at < len(key):
        length, at = _number(key, at + 1)  # one byte of tag: the scan let only 0x0A through
        name, value = _label(key[at : at + length])
        if not name or name in labels:
            problem = f"a label is given twice: '{name}'" if name else "a label has no name"
            raise StewardError(problem, where=_WHAT)
        labels[name] = value
        at += length
    return labels


def _label(data: bytes) -> tuple[str, str]:
    at, parts = 0, {0x0A: b"", 0x12: b""}
    while at < len(data):
        tag = data[at]
        length, start = _number(data, at + 1)
        if tag not in parts or length > len(data) - start:
            raise StewardError("a label is malformed", where=_WHAT)
        parts[tag] = data[start : start + length]
        at = start + length
    try:
        return parts[0x0A].decode(), parts[0x12].decode()
    except UnicodeDecodeError as fault:
        raise StewardError(f"a label is not UTF-8: {fault}", where=_WHAT) from fault


def _number(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    for place in range(at, min(at + 10, len(data))):
        value |= (data[place] & 0x7F) << shift
        if data[place] < 0x80:
            return value, place + 1
        shift += 7
    raise StewardError("a label is malformed", where=_WHAT)
