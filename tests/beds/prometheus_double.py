"""A server that answers questions like a Prometheus, or as badly as a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import numpy as np

from patience import LONG_S


class PrometheusDouble:
    """What it says: all of `series` are 95 at all times, or `body` as it is."""

    def __init__(self) -> None:
        self.url = ""
        self.series: list[dict[str, str]] = []
        self.body = b""
        self.asked: list[str] = []
        self.go_on = threading.Event()
        self.go_on.set()

    def answer(self, path: str) -> bytes:
        """Return the body that is sent."""
        given = {name: each[0] for name, each in parse_qs(urlsplit(path).query).items()}
        self.asked.append(given["query"])
        self.go_on.wait(LONG_S)
        if self.body:
            return self.body
        first_s, last_s, step_s = (float(given[each]) for each in ("start", "end", "step"))
        values = [[t_s, "95"] for t_s in np.arange(first_s, last_s + step_s / 2, step_s).tolist()]
        result = [{"metric": each, "values": values} for each in self.series]
        data = {"resultType": "matrix", "result": result}
        return json.dumps({"status": "success", "data": data}).encode()


@contextmanager
def prometheus_double(port: int = 0) -> Iterator[PrometheusDouble]:
    """Run one until the block ends."""
    double = PrometheusDouble()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = double.answer(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_rest: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    double.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield double
    finally:
        double.go_on.set()
        server.shutdown()
        server.server_close()
