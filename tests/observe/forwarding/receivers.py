"""Receivers on this machine that take, refuse, or are slow; and looks to send to them."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import polars as pl

from factories import samples
from steward.clients.web import Endpoint
from steward.clients.wire.otlp import LogRecord, decode_logs, decode_metrics, point_of_key
from steward.clients.wire.remote_write import decode_write, labels_of_key
from steward.model.event import LogLine, Observation
from steward.observe.forwarding import ForwardTarget

T0 = 1_700_000_000.0
BUSY = "gpu.busy_share"
PointKey = tuple[str, float, float]  # series, seconds after T0, value


class Receiver:
    """Answers with `status`, after `slow_s`, and keeps what it took."""

    def __init__(self) -> None:
        self.status = 200
        self.slow_s = 0.0
        self.bodies: list[tuple[str, dict[str, str], bytes]] = []
        self.requests = 0
        self.url = ""
        self.released = threading.Event()

    def points(self) -> list[PointKey]:
        """Return all that came by remote write, as it came."""
        found = []
        for path, _, body in self.bodies:
            if path != "/api/v1/write":
                continue
            got = decode_write(body)
            keys = [labels_of_key(got.key(i)) for i in range(len(got.starts))]
            for i, t_ms, value in zip(got.series, got.t_ms, got.values, strict=True):
                labels = keys[i]
                name = f"{labels['__name__']} {labels.get('node')}/{labels.get('gpu')}"
                found.append((name, float(t_ms) / 1e3 - T0, float(value)))
        return found

    def otlp_names(self) -> set[str]:
        names = set()
        for path, _, body in self.bodies:
            if path == "/v1/metrics":
                got = decode_metrics(gzip.decompress(body))
                names |= {point_of_key(got.key(i)).name for i in range(len(got.starts))}
        return names

    def records(self) -> list[LogRecord]:
        return [
            record
            for path, _, body in self.bodies
            if path == "/v1/logs"
            for record in decode_logs(gzip.decompress(body))
        ]


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Run a receiver of HTTP on a port of its own."""
    made = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            made.requests += 1
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.released.wait(made.slow_s)
            if made.status == 200:
                made.bodies.append((self.path, dict(self.headers), body))
            self.send_response(made.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_rest: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    made.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield made
    finally:
        made.released.set()
        server.shutdown()
        server.server_close()


def target(url: str, format_: str = "remote-write", **changes: Any) -> ForwardTarget:
    path = "/api/v1/write" if format_ == "remote-write" else ""
    endpoint = Endpoint(url=f"{url}{path}", **changes.pop("endpoint", {}))
    return ForwardTarget(**{"name": "site", "format": format_, "endpoint": endpoint, **changes})


def look(*at_s: float, entity: str = "n1/gpu0", value: float = 0.5, metric: str = BUSY) -> Any:
    """Return an observation with a sample at each of these times after T0."""
    tables = [samples(T0 + t_s, {entity: {metric: value}}) for t_s in at_s]
    return Observation(frames=(pl.concat(tables),))


def line(text: str, *, entity: str = "n1", level: int = 6, source: str = "kernel") -> LogLine:
    return LogLine(t_s=T0, entity=entity, source=source, text=text, level=level)


def in_order(points: Sequence[PointKey]) -> bool:
    newest: dict[str, float] = {}
    for name, t_s, _ in points:
        if t_s <= newest.get(name, float("-inf")):
            return False
        newest[name] = t_s
    return True
