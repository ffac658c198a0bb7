"""One decoder per wire format that can be pushed: bytes in, parsed samples or lines out.

A decoder is given the sender of a body and its compression, then the body just as it came: that is
what lies on disk. Decoding changes nothing that is remembered, so a body may be decoded again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from steward.clients.wire.compression import unpack
from steward.clients.wire.otlp import (
    LogRecord,
    OutgoingSeries,
    decode_logs,
    decode_metrics,
    encode_metrics,
    from_json,
    point_of_key,
)
from steward.clients.wire.otlp_scan import COUNT_OF, PER_SECOND, SUM_OF
from steward.clients.wire.remote_write import decode_write, encode_write, labels_of_key
from steward.clients.wire.samples import WireLimits
from steward.errors import StewardError
from steward.model.event import Event, LogLine
from steward.observe.receive.converter import (
    AHEAD_S,
    ConverterStats,
    PushedSamples,
    SampleConverter,
)
from steward.observe.receive.tables import observation_of
from steward.observe.translate import SeriesMapping, map_point, map_series
from steward.observe.translate.entities import node_name

__all__ = ["Decoders", "PushedBody", "PushedLines", "pack_body", "warm_up"]

Decoder = Callable[[bytes], "PushedSamples | PushedLines"]
_ENCODINGS = ("identity", "gzip", "snappy")
_SUFFIX = {COUNT_OF: "/count", SUM_OF: "/sum"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedBody:
    """A body as received, with the metadata of its headers and connection."""

    sender: str
    encoding: str
    json: bool
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedLines:
    """The log lines of one body; `refused` had no usable time."""

    lines: tuple[LogLine, ...]
    refused: int = 0
    why: str = ""
    events: tuple[Event, ...] = ()


def pack_body(given: PushedBody) -> bytes:
    """Return the bytes that are kept on disk and decoded."""
    sender = given.sender.encode()[:255]
    head = bytes((_ENCODINGS.index(given.encoding), given.json, len(sender)))
    return head + sender + given.body


def _opened(data: bytes) -> PushedBody:
    if len(data) < 3 or data[0] >= len(_ENCODINGS) or len(data) < 3 + data[2]:
        raise StewardError("is not a pushed body with its head", where="intake")
    return PushedBody(
        encoding=_ENCODINGS[data[0]],
        json=bool(data[1]),
        sender=data[3 : 3 + data[2]].decode("utf-8", "replace"),
        body=data[3 + data[2] :],
    )


class Decoders:
    """All decoders, with what they remember of the series that came."""

    def __init__(
        self,
        *,
        limits: WireLimits | None = None,
        max_series: int = 200_000,
        now_s: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._limits = limits or WireLimits()
        self._wall_s = wall_s
        made = partial(SampleConverter, max_series=max_series, now_s=now_s, wall_s=wall_s)
        self._write = made(_map_written, source="remote-write")
        self._otlp = made(self._map_point, source="otlp")
        self._refused_lines = 0
        self.by_kind: dict[str, Decoder] = {
            "remote-write": self.remote_write,
            "otlp-metrics": self.otlp_metrics,
            "otlp-logs": self.otlp_logs,
        }

    @property
    def stats(self) -> dict[str, ConverterStats]:
        """Counts of received and of dropped samples by format."""
        lines = ConverterStats(out_of_time=self._refused_lines)
        return {
            "remote-write": self._write.stats,
            "otlp-metrics": self._otlp.stats,
            "otlp-logs": lines,
        }

    def remote_write(self, data: bytes) -> PushedSamples:
        """Decode a Prometheus remote write request."""
        opened = _opened(data)
        samples = decode_write(opened.body, self._limits)
        return self._write.parse(samples, sender=opened.sender)

    def otlp_metrics(self, data: bytes) -> PushedSamples:
        """Decode an OTLP metrics request."""
        opened = _opened(data)
        samples = decode_metrics(self._plain(opened, logs=False), self._limits)
        return self._otlp.parse(samples, sender=opened.sender)

    def otlp_logs(self, data: bytes) -> PushedLines:
        """Decode an OTLP logs request. A record without a time has that of its arrival."""
        opened = _opened(data)
        records = decode_logs(self._plain(opened, logs=True), self._limits)
        now_s = self._wall_s()
        most_ns = int((now_s + AHEAD_S) * 1e9)
        lines = tuple(_line(each, now_s) for each in records if each.t_ns <= most_ns)
        refused = len(records) - len(lines)
        if not refused:
            return PushedLines(lines=lines)
        self._refused_lines += refused
        why = (
            f"{refused} log records from {opened.sender or 'a sender'} are refused: their times "
            f"are more than {AHEAD_S:.0f} s ahead of this machine's clock"
        )
        if not lines:
            hint = "look at the time synchronisation of both machines"
            raise StewardError(why, where="pushed lines", hint=hint)
        kind = "telemetry.time-refused"
        event = Event(t_s=now_s, kind=kind, subject=opened.sender, text=why, source="otlp")
        return PushedLines(lines=lines, refused=refused, why=why, events=(event,))

    def _plain(self, opened: PushedBody, *, logs: bool) -> bytes:
        body = unpack(opened.body, encoding=opened.encoding, most_bytes=self._limits.body_bytes)
        return from_json(body, logs=logs, limits=self._limits) if opened.json else body

    def _map_point(self, key: bytes) -> SeriesMapping:
        point = point_of_key(key, self._limits)
        if not point.name:
            raise StewardError("a metric has no name", where="OTLP")
        name = point.name + _SUFFIX.get(point.kind, "")
        per_second = point.kind == PER_SECOND
        return map_point(name, point.resource, point.attributes, per_second=per_second)


def warm_up() -> None:
    """Compile what decodes, or load it from disk: the first sender should not have to wait."""
    decoders = Decoders()
    body = encode_write([({"__name__": "node_load1"}, [0], [0.0])])
    sent = OutgoingSeries(
        name="host.load_1m", unit="1", attributes={}, counter=False, t_ns=[0], values=[0.0]
    )
    metrics = encode_metrics({}, [sent])
    for decode, encoding, data in (
        (decoders.remote_write, "snappy", body),
        (decoders.otlp_metrics, "identity", metrics),
    ):
        given = PushedBody(sender="", encoding=encoding, json=False, body=data)
        observation_of([decode(pack_body(given)).convert()])


def _map_written(key: bytes) -> SeriesMapping:
    return map_series(labels_of_key(key))


def _line(record: LogRecord, now_s: float) -> LogLine:
    resource, attributes = record.resource, record.attributes
    job = resource.get("job_id") or attributes.get("job_id")
    node = next((resource[n] for n in ("host.name", "k8s.node.name") if resource.get(n)), "unknown")
    source = attributes.get("log.file.name") or resource.get("service.name") or "otlp"
    return LogLine(
        t_s=record.t_ns / 1e9 if record.t_ns else now_s,
        entity=f"job:{job}" if job else node_name(node),
        source=source,
        text=record.text,
        level=_level(record.severity),
    )


def _level(severity: int) -> int:
    """Return syslog's level of OTLP's severity: 1..4 trace, 5 debug, 9 info, 13 warn, 17 error.

    >>> _level(9), _level(17), _level(21), _level(0), _level(5), _level(13), _level(10)
    (6, 3, 2, 6, 7, 4, 5)
    """
    if severity == 0:
        return 6
    if severity < 9:
        return 7
    if severity < 13:
        return 6 if severity == 9 else 5
    return 4 if severity < 17 else 3 if severity < 21 else 2
