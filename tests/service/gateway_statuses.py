"""What gateways answer: a usual status, and a server that gives one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

T_S = 1_700_000_000.0


def status(**changed: Any) -> dict[str, Any]:
    """Return the status of a gateway with one of everything."""
    return {
        "t_s": T_S,
        "policy": "edf",
        "estimator": {"name": "serving", "median_error": 0.04, "coverage_90": 0.9, "requests": 500},
        "classes": [
            {
                "name": "interactive",
                "queued": 3,
                "in_flight": 7,
                "done": 100,
                "met": 98,
                "missed": 2,
                "attainment": 0.98,
                "oldest_wait_s": 2.0,
                "expected_wait_s": 3.0,
                "bound_wait_s": 4.0,
                "deadline_s": 10.0,
            }
        ],
        "instances": [
            {
                "name": "gpu-a",
                "url": "http://127.0.0.1:8001",
                "model": "m",
                "type": "h200",
                "state": "serving",
                "role": "any",
                "running": 6,
                "waiting": 1,
                "limit": 64,
                "tokens_per_s": 812.5,
                "kv_share": 0.4,
                "breaker": "closed",
                "errors": 0,
                "draining": False,
            }
        ],
        "waits": [
            {
                "t_s": T_S - each,
                "class": "interactive",
                "expected_s": 1.0 + each,
                "bound_s": 1.5 + each,
                "observed_s": 1.1 + each,
            }
            for each in range(5)
        ],
        "events": [
            {"t_s": T_S - 60, "what": "started", "instance": "gpu-a", "why": "a class was late"}
        ],
        "batches": {"open": 1, "waiting": 40, "done": 60, "failed": 2},
        **changed,
    }


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Take a client that hangs up in its stride."""


@contextmanager
def answering(make: Callable[[], tuple[int, bytes]]) -> Iterator[tuple[str, list[str]]]:
    """Serve what `make` returns; give the address, and a list of the keys that were sent."""
    keys: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            keys.append(self.headers.get("Authorization", ""))
            code, body = make() if self.path == "/steward/v1/status" else (404, b"nothing here")
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep stderr clean."""

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", keys
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def as_json(value: object) -> Callable[[], tuple[int, bytes]]:
    """Return what answers with one value."""
    return lambda: (200, json.dumps(value).encode())
