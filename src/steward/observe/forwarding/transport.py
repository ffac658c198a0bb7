"""Transports: how series and lines are encoded and sent.

What a way needs is imported when it is taken: an agent that sends nowhere has no room for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from steward.clients.web import Endpoint
from steward.model.event import LogLine
from steward.observe.translate.outgoing import MetricSeries, written_as

__all__ = ["SENT_FORMATS", "Transport", "open_transport", "parts"]

SENT_FORMATS = ("remote-write", "otlp-http", "otlp-grpc")
PER_BODY = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """How to encode and send. Remote write carries no lines."""

    encode: Callable[[Sequence[MetricSeries]], bytes]
    send: Callable[[bytes], object]
    encode_lines: Callable[[Sequence[LogLine]], bytes] | None = None
    send_lines: Callable[[bytes], object] | None = None
    close: Callable[[], None] = lambda: None


def open_transport(format_: str, endpoint: Endpoint) -> Transport:
    """Open the way that a format takes."""
    if format_ == "remote-write":
        return _remote_write(endpoint)
    return _otlp(endpoint, grpc=format_ == "otlp-grpc")


def _remote_write(endpoint: Endpoint) -> Transport:
    from steward.clients.remote_writer import RemoteWriter  # noqa: PLC0415
    from steward.clients.wire.remote_write_encoder import encode_write  # noqa: PLC0415

    return Transport(
        encode=lambda part: encode_write(written_as(part)), send=RemoteWriter(endpoint).send
    )


def _otlp(endpoint: Endpoint, *, grpc: bool) -> Transport:
    from steward.clients.otlp import OtlpGrpc, OtlpHttp  # noqa: PLC0415
    from steward.clients.wire.otlp_encoder import encode_logs, encode_metrics  # noqa: PLC0415
    from steward.observe.translate.outgoing_otlp import logged_as, sent_as  # noqa: PLC0415

    client = OtlpGrpc(endpoint) if grpc else OtlpHttp(endpoint)
    return Transport(
        encode=lambda part: encode_metrics({"service.name": "steward"}, sent_as(part)),
        send=client.send_metrics,
        encode_lines=lambda lines: encode_logs(logged_as(lines)),
        send_lines=client.send_logs,
        close=client.close,
    )


def parts(series: Iterable[MetricSeries]) -> Iterator[list[MetricSeries]]:
    """Put series together until they are enough for one body."""
    part: list[MetricSeries] = []
    size = 0
    for each in series:
        part.append(each)
        size += len(each.values)
        if size >= PER_BODY:
            yield part
            part, size = [], 0
    if part:
        yield part
