"""Messages of other monitoring systems, as tests need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from steward.clients.wire.remote_write import encode_write
from steward.observe.receive import PushedBody, pack_body

RECORDED = Path(__file__).parent / "data" / "prometheus-2.42"
T_MS = 1_700_000_000_000


def recorded(number: int) -> bytes:
    """Return the body of a request that a real Prometheus 2.42 sent."""
    return (RECORDED / f"write-{number}.snappy").read_bytes()


def one_series(labels: Mapping[str, str], values: Sequence[float], t_ms: int = T_MS) -> bytes:
    """Return a remote write request with one sample a second."""
    return encode_write([(labels, [t_ms + 1000 * i for i in range(len(values))], values)])


def request_of(
    series: Sequence[tuple[Mapping[str, str], float]], *, t_ms: int = T_MS, sender: str = "p"
) -> bytes:
    """Return what the intake is given: a remote write request of one moment."""
    return pushed(encode_write([(labels, [t_ms], [value]) for labels, value in series]), sender)


def pushed(
    body: bytes, sender: str = "p", *, encoding: str = "snappy", json: bool = False
) -> bytes:
    """Return a body with what its connection said about it."""
    return pack_body(PushedBody(sender=sender, encoding=encoding, json=json, body=body))


def otlp_request(
    *, resource: Mapping[str, str] | None = None
) -> tuple[ExportMetricsServiceRequest, list[KeyValue]]:
    """Return an empty request by the official classes, with its resource's attributes."""
    request = ExportMetricsServiceRequest()
    of = request.resource_metrics.add()
    pairs = pairs_of(resource or {"host.name": "n01"})
    of.resource.attributes.extend(pairs)
    of.scope_metrics.add()
    return request, pairs


def pairs_of(attributes: Mapping[str, str]) -> list[KeyValue]:
    return [KeyValue(key=k, value=AnyValue(string_value=v)) for k, v in attributes.items()]
