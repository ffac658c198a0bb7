"""OTLP, outgoing: metrics and logs as protobuf. Nothing here is compiled, for the agent's sake."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import ScopeLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric

__all__ = ["LogRecord", "OutgoingSeries", "encode_logs", "encode_metrics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """One log record. `severity` is OTLP's 1..24, 0 where it was not given."""

    t_ns: int
    severity: int
    text: str
    resource: Mapping[str, str]
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingSeries:
    """One series to send: all its points, with their own times."""

    name: str
    unit: str
    attributes: Mapping[str, str]
    counter: bool
    t_ns: Sequence[int]
    values: Sequence[float]


def encode_metrics(resource: Mapping[str, str], series: Iterable[OutgoingSeries]) -> bytes:
    """Encode series of one resource; every point keeps its own time."""
    request = ExportMetricsServiceRequest()
    of = request.resource_metrics.add()
    of.resource.attributes.extend(_pairs(resource))
    scope = of.scope_metrics.add()
    scope.scope.name = "steward"
    metrics: dict[str, Metric] = {}
    for each in series:
        if each.name not in metrics:
            metrics[each.name] = scope.metrics.add(name=each.name, unit=each.unit)
        _add_points(metrics[each.name], each)
    return bytes(request.SerializeToString())


def _add_points(metric: Metric, sent: OutgoingSeries) -> None:
    points = metric.gauge.data_points
    if sent.counter:
        metric.sum.is_monotonic = True
        metric.sum.aggregation_temporality = AggregationTemporality.Value(
            "AGGREGATION_TEMPORALITY_CUMULATIVE"
        )
        points = metric.sum.data_points
    attributes = list(_pairs(sent.attributes))
    for t_ns, value in zip(sent.t_ns, sent.values, strict=True):
        points.add(time_unix_nano=t_ns, as_double=value, attributes=attributes)


def encode_logs(records: Iterable[LogRecord]) -> bytes:
    """Encode log records, those of one resource together."""
    request = ExportLogsServiceRequest()
    scopes: dict[tuple[tuple[str, str], ...], ScopeLogs] = {}
    for each in records:
        resource = tuple(each.resource.items())
        if resource not in scopes:
            of = request.resource_logs.add()
            of.resource.attributes.extend(_pairs(each.resource))
            scopes[resource] = of.scope_logs.add()
            scopes[resource].scope.name = "steward"
        scopes[resource].log_records.add(
            time_unix_nano=each.t_ns,
            severity_number=each.severity,
            body=AnyValue(string_value=each.text),
            attributes=_pairs(each.attributes),
        )
    return bytes(request.SerializeToString())


def _pairs(attributes: Mapping[str, str]) -> Iterable[KeyValue]:
    return (
        KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in attributes.items()
    )
