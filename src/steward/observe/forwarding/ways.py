"""The ways out: how series and lines become bytes, and who takes them.

What a way needs is imported when it is taken: an agent that sends nowhere has no room for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from steward.clients.web import Endpoint
from steward.model.event import LogLine
from steward.observe.translate.outgoing import Series, written_as

__all__ = ["SENT_FORMATS", "Way", "parts", "way_out"]

SENT_FORMATS = ("remote-write", "otlp-http", "otlp-grpc")
PER_BODY = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How to encode and send. Remote write knows no lines."""

    encode: Callable[[Sequence[Series]], bytes]
    send: Callable[[bytes], object]
    encode_lines: Callable[[Sequence[LogLine]], bytes] | None = None
    send_lines: Callable[[bytes], object] | None = None
    close: Callable[[], None] = lambda: None


def way_out(format_: str, endpoint: Endpoint) -> Way:
    """Open the way that a format takes."""
    if format_ == "remote-write":
        return _remote_write(endpoint)
    return _otlp(endpoint, grpc=format_ == "otlp-grpc")


def _remote_write(endpoint: Endpoint) -> Way:
    from steward.clients.sending.remote_writer import RemoteWriter  # noqa: PLC0415
    from steward.clients.wire.remote_write_out import encode_write  # noqa: PLC0415

    return Way(encode=lambda part: encode_write(written_as(part)), send=RemoteWriter(endpoint).send)


def _otlp(endpoint: Endpoint, *, grpc: bool) -> Way:
    from steward.clients.otlp import OtlpGrpc, OtlpHttp  # noqa: PLC0415
    from steward.clients.wire.otlp_out import encode_logs, encode_metrics  # noqa: PLC0415
    from steward.observe.translate.outgoing_otlp import logged_as, sent_as  # noqa: PLC0415

    client = OtlpGrpc(endpoint) if grpc else OtlpHttp(endpoint)
    return Way(
        encode=lambda part: encode_metrics({"service.name": "steward"}, sent_as(part)),
        send=client.send_metrics,
        encode_lines=lambda lines: encode_logs(logged_as(lines)),
        send_lines=client.send_logs,
        close=client.close,
    )


def parts(series: Iterable[Series]) -> Iterator[list[Series]]:
    """Put series together until they are enough for one body."""
    part: list[Series] = []
    size = 0
    for each in series:
        part.append(each)
        size += len(each.values)
        if size >= PER_BODY:
            yield part
            part, size = [], 0
    if part:
        yield part
