"""OTLP: metrics and logs of OpenTelemetry, as protobuf or JSON, in and out.

Metrics are read by a compiled walk (`otlp_scan`); everything rarer by the official classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import ResourceLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from steward.clients.wire import otlp_scan
from steward.clients.wire.otlp_encoder import LogRecord, OutgoingSeries, encode_logs, encode_metrics
from steward.clients.wire.protobuf_scan import fault_at
from steward.clients.wire.samples import WireLimits, WireSamples
from steward.errors import StewardError

__all__ = [
    "LogRecord",
    "OutgoingSeries",
    "PointKey",
    "decode_logs",
    "decode_metrics",
    "encode_logs",
    "encode_metrics",
    "from_json",
    "point_of_key",
]

_WHAT = "OTLP"
_KEYS_BYTES = 64 * 2**20
_DEPTH = 16  # of JSON, and of values inside values
_TEXT = 1024  # characters of an attribute that is not a plain value


@dataclass(frozen=True, slots=True, kw_only=True)
class PointKey:
    """A decoded key: entity, name and kind of its number."""

    kind: int  # see `otlp_scan`
    name: str
    resource: Mapping[str, str]
    attributes: Mapping[str, str]


# -- metrics in --------------------------------------------------------------------------------


def decode_metrics(data: bytes, limits: WireLimits | None = None) -> WireSamples:
    """Decode an `ExportMetricsServiceRequest`; raises `StewardError` with the byte at fault."""
    limits = limits or WireLimits()
    if len(data) > limits.body_bytes:
        raise StewardError(f"has more than {limits.body_bytes} bytes", where=_WHAT)
    most = min(limits.samples, 2 * len(data))
    keys = np.empty(min(_KEYS_BYTES, 64 + 64 * len(data)), np.uint8)
    spans, times = np.empty((2, most), np.int64), np.empty(most, np.int64)
    values, state = np.empty(most), np.zeros(otlp_scan.STATE_SIZE, np.int64)
    state[otlp_scan.KEY_MOST] = 2 * limits.label_bytes
    buffer = np.frombuffer(data, dtype=np.uint8)
    code = otlp_scan.scan_metrics(buffer, keys, spans, times, values, state)
    if code < 0:
        raise fault_at(int(code), int(state[otlp_scan.FAULT_AT]), what=_WHAT)
    count = int(state[otlp_scan.POINTS])
    skipped = {"buckets": int(state[otlp_scan.BUCKETS]), "no_value": int(state[otlp_scan.EMPTY])}
    return WireSamples(
        buffer=keys,
        starts=spans[0, :count],
        ends=spans[1, :count],
        series=np.arange(count),
        t_ms=times[:count] // 1_000_000,
        values=values[:count],
        skipped={name: n for name, n in skipped.items() if n},
    )


def point_of_key(key: bytes, limits: WireLimits | None = None) -> PointKey:
    """Read a key into text."""
    limits = limits or WireLimits()
    resource, at = _part(key, 1)
    name, at = _part(key, at)
    attributes, _ = _part(key, at)
    try:
        return PointKey(
            kind=key[0],
            name=name.decode(),
            resource=_texts(Resource.FromString(resource).attributes, limits),
            attributes=_texts(Resource.FromString(attributes).attributes, limits),
        )
    except (DecodeError, UnicodeDecodeError) as fault:
        raise StewardError(f"an attribute or a name is malformed: {fault}", where=_WHAT) from fault


def _part(key: bytes, at: int) -> tuple[bytes, int]:
    length = int.from_bytes(key[at : at + 4], "little")
    return key[at + 4 : at + 4 + length], at + 4 + length


def _texts(pairs: Iterable[KeyValue], limits: WireLimits) -> dict[str, str]:
    found = {pair.key: _text(pair.value) for pair in pairs}
    if len(found) > limits.labels:
        problem = f"something has more than {limits.labels} attributes"
        raise StewardError(problem, where=_WHAT, hint="send fewer attributes")
    return found


def _text(value: AnyValue) -> str:
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return "true" if value.bool_value else "false"
        case "int_value":
            return str(value.int_value)
        case "double_value":
            return repr(value.double_value)
        case None:
            return ""
    return str(value).replace("\n", " ")[:_TEXT]


def from_json(text: bytes, *, logs: bool, limits: WireLimits | None = None) -> bytes:
    """Convert OTLP's JSON form into protobuf."""
    limits = limits or WireLimits()
    if len(text) > limits.body_bytes:
        raise StewardError(f"has more than {limits.body_bytes} bytes", where=_WHAT)
    if not text.lstrip().startswith(b"{"):
        raise StewardError("is not OTLP in JSON: it is no object", where=_WHAT)
    message: Message = ExportLogsServiceRequest() if logs else ExportMetricsServiceRequest()
    try:
        json_format.Parse(
            text, message, ignore_unknown_fields=True, max_recursion_depth=_DEPTH + 16
        )
    except (json_format.ParseError, UnicodeDecodeError, RecursionError, ValueError) as fault:
        problem = f"is not OTLP in JSON: {str(fault)[:200]}"
        raise StewardError(problem, where=_WHAT, hint="see the OTLP specification") from fault
    return bytes(message.SerializeToString())


# -- logs in -----------------------------------------------------------------------------------


def decode_logs(data: bytes, limits: WireLimits | None = None) -> list[LogRecord]:
    """Decode an `ExportLogsServiceRequest`."""
    limits = limits or WireLimits()
    if len(data) > limits.body_bytes:
        raise StewardError(f"has more than {limits.body_bytes} bytes", where=_WHAT)
    try:
        request = ExportLogsServiceRequest.FromString(data)
    except DecodeError as fault:
        raise StewardError(f"is not an ExportLogsServiceRequest: {fault}", where=_WHAT) from fault
    count = sum(len(s.log_records) for r in request.resource_logs for s in r.scope_logs)
    if count > limits.samples:
        raise StewardError(f"holds more than {limits.samples} log records", where=_WHAT)
    return [record for each in request.resource_logs for record in _records(each, limits)]


def _records(of: ResourceLogs, limits: WireLimits) -> Iterable[LogRecord]:
    resource = _texts(of.resource.attributes, limits)
    for scope in of.scope_logs:
        for each in scope.log_records:
            yield LogRecord(
                t_ns=each.time_unix_nano or each.observed_time_unix_nano,
                severity=each.severity_number,
                text=_text(each.body),
                resource=resource,
                attributes=_texts(each.attributes, limits),
            )
