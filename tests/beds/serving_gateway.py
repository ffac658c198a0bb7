"""A gateway double: the status and the instances of a gateway, as steward's loop uses them.

Requests go to the instances by turns; one that none can take waits. It counts what a gateway
counts, and can be made to fail, to be slow to forget, or to want a key.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

STATUS = "/steward/v1/status"
UPSTREAMS = "/steward/v1/upstreams/"


class GatewayDouble:
    """What the server knows; tests write into it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.instances: dict[str, dict[str, Any]] = {}
        self.classes: list[dict[str, Any]] = [progress()]
        self.events: list[dict[str, Any]] = []
        self.t_s = 1000.0
        self.key = ""
        self.down = 0  # how many requests are answered with 503
        self.garbage = False
        self.asked: list[tuple[str, str, Any]] = []
        self.url = ""

    def status(self) -> dict[str, Any]:
        with self.lock:
            return {
                "t_s": self.t_s,
                "policy": "edf",
                "estimator": {"name": "s", "median_error": 0.04, "coverage_90": 0.9, "requests": 9},
                "classes": list(self.classes),
                "instances": [dict(each) for each in self.instances.values()],
                "waits": [],
                "events": list(self.events),
                "batches": {"open": 0, "waiting": 0, "done": 0, "failed": 0},
            }

    def add(self, name: str, **values: Any) -> None:
        """Add an instance that serves, or change it."""
        with self.lock:
            self.instances[name] = {**instance(name), **self.instances.get(name, {}), **values}

    def set(self, **values: Any) -> None:
        """Set counts of the one class."""
        with self.lock:
            self.classes = [{**self.classes[0], **values}]


def progress(name: str = "interactive", **values: Any) -> dict[str, Any]:
    return {
        "name": name,
        "queued": 0,
        "in_flight": 0,
        "done": 0,
        "met": 0,
        "missed": 0,
        "attainment": None,
        "oldest_wait_s": 0.0,
        "expected_wait_s": None,
        "bound_wait_s": None,
        "deadline_s": 10.0,
        **values,
    }


def instance(name: str, **values: Any) -> dict[str, Any]:
    return {
        "name": name,
        "url": f"http://127.0.0.1:1/{name}",
        "model": "m",
        "type": name.rpartition("-")[0],
        "state": "serving",
        "role": "any",
        "running": 0,
        "waiting": 0,
        "limit": 16,
        "tokens_per_s": 0.0,
        "kv_share": None,
        "breaker": "closed",
        "errors": 0,
        "draining": False,
        **values,
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    double: GatewayDouble

    def do_GET(self) -> None:
        if self._may():
            self._json(200, self.double.status())

    def do_PUT(self) -> None:
        name, body = self._sent()
        if self._may():
            models = body.pop("models")
            self.double.instances.pop(name, None)
            self.double.add(name, model=", ".join(models), **body)
            self._json(200, {})

    def do_PATCH(self) -> None:
        name, body = self._sent()
        if not self._may():
            return
        if name not in self.double.instances:
            self._json(404, {"error": {"message": f"there is no upstream '{name}'"}})
            return
        self.double.add(name, **body)
        self._json(200, {})

    def do_DELETE(self) -> None:
        name = self._name()
        if self._may():
            with self.double.lock:
                found = self.double.instances.pop(name, None)
            self._json(200 if found else 404, {} if found else {"error": {"message": "none"}})

    def _sent(self) -> tuple[str, dict[str, Any]]:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.double.asked.append((self.command, self.path, body))
        return self._name(), body

    def _name(self) -> str:
        return unquote(self.path.removeprefix(UPSTREAMS))

    def _may(self) -> bool:
        double = self.double
        if double.down > 0:
            double.down -= 1
            self._json(503, {"error": {"message": "starting"}})
            return False
        if double.key and self.headers.get("Authorization") != f"Bearer {double.key}":
            self._json(401, {"error": {"message": "this key may not"}})
            return False
        return True

    def _json(self, code: int, body: Any) -> None:
        text = b"<html>" if self.double.garbage else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def gateway_double(tls: ssl.SSLContext | None = None) -> Iterator[GatewayDouble]:
    """Serve on a free port of this machine."""
    double = GatewayDouble()
    handler = type("Handler", (_Handler,), {"double": double})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    double.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield double
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
