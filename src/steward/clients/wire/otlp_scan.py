"""The compiled walk over an OTLP `ExportMetricsServiceRequest`.

Field numbers are those of opentelemetry-proto's metrics.proto. For each number a key is written:
one byte for its kind, the resource's attributes, the metric's name and the point's attributes,
each with its length before it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.clients.wire.protobuf_scan import (
    CUT,
    LABEL_BYTES,
    SAMPLES,
    Bytes,
    fixed64,
    skip,
    varint,
)
from steward.compiled import njit

__all__ = [
    "COUNT_OF",
    "GAUGE",
    "PER_SECOND",
    "SUM",
    "SUM_OF",
    "TOTAL",
    "scan_metrics",
]

Ints = NDArray[np.int64]
# The kind of number in a key's first byte: a level, a counter, a sum that may fall, a change
# since the last point (given per second), and the two numbers that are kept of a histogram.
GAUGE, TOTAL, SUM, PER_SECOND, COUNT_OF, SUM_OF = 0, 1, 2, 3, 4, 5
_DELTA = 1
_NANO = 1e-9

# places in `state`: what has been found so far, and where the parts of the present key are
POINTS, KEY_END, FAULT_AT, BUCKETS, EMPTY, RES_START, RES_END, NAME_START, NAME_END = range(9)
KEY_MOST, STATE_SIZE = 9, 10


@njit
def scan_metrics(
    data: Bytes, keys: Bytes, spans: Ints, times: Ints, values: NDArray[np.float64], state: Ints
) -> int:
    """Fill keys, their spans, times (ns) and values; below zero is a fault at `state[FAULT_AT]`.

    `state[POINTS]` is their number. No key may be longer than `state[KEY_MOST]`.
    """
    at, end = 0, len(data)
    while at < end:
        began = at
        tag, at = varint(data, at, end)
        if at > 0 and tag == 0x0A:
            length, at = varint(data, at, end)
            if at > 0 and 0 <= length <= end - at:
                code = _resource(data, at, at + length, keys, spans, times, values, state)
                if code < 0:
                    return code
                at += length
                continue
            at = CUT
        if at > 0:
            at = skip(data, at, end, tag & 7)
        if at < 0:
            state[FAULT_AT] = began
            return at
    return at


@njit
def _inside(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Read a length; return where the content begins and ends."""
    length, at = varint(data, at, end)
    if at < 0 or length < 0 or length > end - at:
        return CUT, CUT
    return at, at + length


@njit
def _resource(  # noqa: C901, PLR0913, PLR0917 - compiled
    data: Bytes,
    first: int,
    end: int,
    keys: Bytes,
    spans: Ints,
    times: Ints,
    values: NDArray[np.float64],
    state: Ints,
) -> int:
    """Walk over one `ResourceMetrics`, twice: its resource may stand behind its metrics."""
    state[RES_START] = state[RES_END] = 0
    for wanted in (0x0A, 0x12):
        at = first
        while at < end:
            began = at
            tag, at = varint(data, at, end)
            if at > 0 and tag == wanted:
                start, stop = _inside(data, at, end)
                at = stop
                if start > 0 and tag == 0x0A:
                    state[RES_START], state[RES_END] = start, stop
                elif start > 0:
                    code = _scope(data, start, stop, keys, spans, times, values, state)
                    if code < 0:
                        return code
            elif at > 0:
                at = skip(data, at, end, tag & 7)
            if at < 0:
                state[FAULT_AT] = began
                return at
    return 0


@njit
def _scope(  # noqa: PLR0913, PLR0917 - compiled
    data: Bytes,
    at: int,
    end: int,
    keys: Bytes,
    spans: Ints,
    times: Ints,
    values: NDArray[np.float64],
    state: Ints,
) -> int:
    while at < end:
        began = at
        tag, at = varint(data, at, end)
        if at > 0 and tag == 0x12:
            start, stop = _inside(data, at, end)
            at = stop
            if start > 0:
                code = _metric(data, start, stop, keys, spans, times, values, state)
                if code < 0:
                    return code
        elif at > 0:
            at = skip(data, at, end, tag & 7)
        if at < 0:
            state[FAULT_AT] = began
            return at
    return 0


@njit
def _metric(  # noqa: PLR0913, PLR0917 - compiled
    data: Bytes,
    at: int,
    end: int,
    keys: Bytes,
    spans: Ints,
    times: Ints,
    values: NDArray[np.float64],
    state: Ints,
) -> int:
    state[NAME_START] = state[NAME_END] = 0
    shape, start_of, stop_of = 0, 0, 0
    while at < end:
        began = at
        tag, at = varint(data, at, end)
        field = tag >> 3
        if at > 0 and tag & 7 == 2 and (field in (1, 5, 7) or 9 <= field <= 11):
            start, stop = _inside(data, at, end)
            at = stop
            if start > 0 and field == 1:
                state[NAME_START], state[NAME_END] = start, stop
            elif start > 0:
                shape, start_of, stop_of = field, start, stop  # the last of a oneof counts
        elif at > 0:
            at = skip(data, at, end, tag & 7)
        if at < 0:
            state[FAULT_AT] = began
            return at
    if shape == 0:
        return 0
    return _points(data, start_of, stop_of, shape, keys, spans, times, values, state)


@njit
def _points(  # noqa: C901, PLR0913, PLR0917 - compiled
    data: Bytes,
    first: int,
    end: int,
    shape: int,
    keys: Bytes,
    spans: Ints,
    times: Ints,
    values: NDArray[np.float64],
    state: Ints,
) -> int:
    """Walk over the points of a metric, after having looked what kind of sum it is."""
    temporality, monotonic = 0, 0
    for walk in range(2):
        at = first
        while at < end:
            began = at
            tag, at = varint(data, at, end)
            if at > 0 and tag == 0x0A:
                start, stop = _inside(data, at, end)
                at = stop
                if walk == 1 and start > 0:
                    code = _point(
                        data, start, stop, shape, temporality, monotonic,
                        keys, spans, times, values, state,
                    )  # fmt: skip
                    if code < 0:
                        state[FAULT_AT] = began
                        return code
            elif at > 0 and tag == 0x10:
                temporality, at = varint(data, at, end)
            elif at > 0 and tag == 0x18:
                monotonic, at = varint(data, at, end)
            elif at > 0:
                at = skip(data, at, end, tag & 7)
            if at < 0:
                state[FAULT_AT] = began
                return at
    return 0


@njit
def _point(  # noqa: C901, PLR0912, PLR0913, PLR0917 - one walk over one point
    data: Bytes,
    first: int,
    end: int,
    shape: int,
    temporality: int,
    monotonic: int,
    keys: Bytes,
    spans: Ints,
    times: Ints,
    values: NDArray[np.float64],
    state: Ints,
) -> int:
    numbers = shape in (5, 7)
    attributes = 7 if numbers or shape == 11 else 9 if shape == 9 else 1
    flags_field = 8 if numbers or shape == 11 else 10
    begin_ns, t_ns, flags = 0, 0, 0
    a, b = 0.0, np.nan
    at = first
    while at < end:
        tag, at = varint(data, at, end)
        if at < 0:
            return at
        field, kind = tag >> 3, tag & 7
        if kind == 1 and field <= 6:
            bits, at = fixed64(data, at, end)
            if at < 0:
                return at
            if field == 2:
                begin_ns = bits
            elif field == 3:
                t_ns = bits
            elif field == 4:
                a = float(np.int64(bits).view(np.float64)) if numbers else float(bits)
            elif field == 6 and numbers:
                a = float(bits)
            elif field == 5 and not numbers:
                b = float(np.int64(bits).view(np.float64))
        elif kind == 0 and field == flags_field:
            flags, at = varint(data, at, end)
        else:
            at = skip(data, at, end, kind)
        if at < 0:
            return at
    if flags & 1:  # the flag for "no recorded value"
        state[EMPTY] += 1
        a, b = np.nan, np.nan
    if numbers:
        kind_byte = GAUGE
        if shape == 7:
            kind_byte = TOTAL if monotonic else SUM
            if temporality == _DELTA:
                kind_byte = PER_SECOND
                grown_s = (t_ns - begin_ns) * _NANO
                a = a / grown_s if grown_s > 0 and begin_ns > 0 else np.nan
        return _keep(
            data, first, end, attributes, kind_byte, keys, spans, times, values, state, t_ns, a
        )
    state[BUCKETS] += 1
    code = _keep(data, first, end, attributes, COUNT_OF, keys, spans, times, values, state, t_ns, a)
    if code < 0:
        return code
    return _keep(data, first, end, attributes, SUM_OF, keys, spans, times, values, state, t_ns, b)


@njit
def _keep(  # noqa: PLR0913, PLR0917 - compiled
    data: Bytes,
    first: int,
    end: int,
    attributes: int,
    kind_byte: int,
    keys: Bytes,
    spans: Ints,
    times: Ints,
    values: NDArray[np.float64],
    state: Ints,
    t_ns: int,
    value: float,
) -> int:
    """Write one number and its key."""
    row, at = state[POINTS], state[KEY_END]
    if row >= len(times):
        return SAMPLES
    name = state[NAME_END] - state[NAME_START]
    room = (state[RES_END] - state[RES_START]) + name + (end - first) + 13
    if at + room > len(keys):
        return LABEL_BYTES
    spans[0, row] = at
    keys[at] = kind_byte
    at = _copied_fields(data, state[RES_START], state[RES_END], 1, keys, at + 1)
    if at < 0:
        return at
    for place in range(4):
        keys[at + place] = (name >> (8 * place)) & 0xFF
    at += 4
    for place in range(name):
        keys[at + place] = data[state[NAME_START] + place]
    at = _copied_fields(data, first, end, attributes, keys, at + name)
    if at < 0:
        return at
    if at - spans[0, row] > state[KEY_MOST]:
        return LABEL_BYTES
    spans[1, row] = at
    times[row] = t_ns
    values[row] = value
    state[KEY_END] = at
    state[POINTS] = row + 1
    return 0


@njit
def _copied_fields(data: Bytes, at: int, end: int, field: int, keys: Bytes, to: int) -> int:
    """Copy all occurrences of a field as field 1, with their length before them."""
    head = to
    to += 4
    while at < end:
        tag, at = varint(data, at, end)
        if at < 0:
            return at
        if tag >> 3 == field and tag & 7 == 2:
            start = at
            at = skip(data, at, end, 2)
            if at < 0:
                return at
            keys[to] = 0x0A
            to += 1
            for place in range(start, at):
                keys[to] = data[place]
                to += 1
        else:
            at = skip(data, at, end, tag & 7)
            if at < 0:
                return at
    size = to - head - 4
    for place in range(4):
        keys[head + place] = (size >> (8 * place)) & 0xFF
    return to
