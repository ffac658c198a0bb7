"""A slurmrestd that answers with what a real one answered, on a Unix socket or on loopback."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data" / "slurm-22.05"


def recorded(name: str) -> bytes:
    return (DATA / f"rest-{name}.json").read_bytes()


@dataclass(kw_only=True)
class FakeSlurmrestd:
    """What it answers by method and path, and the requests that it got."""

    address: str = ""
    answers: dict[str, tuple[int, str, bytes]] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.says("GET /openapi/v3", recorded("openapi"))
        for name in ("ping", "jobs", "nodes", "reservations"):
            self.says(f"GET /slurm/v0.0.38/{name}", recorded(name))

    def says(
        self, what: str, body: bytes, *, code: int = 200, kind: str = "application/json"
    ) -> None:
        self.answers[what] = (code, kind, body)

    def speaks(self, document: dict[str, Any]) -> None:
        self.says("GET /openapi/v3", json.dumps(document).encode())

    def changes(self) -> list[tuple[str, str, Any]]:
        return [(method, path, body) for method, path, _, body in self.requests if method != "GET"]


@contextmanager
def slurmrestd(*, socket: Path | None = None) -> Iterator[FakeSlurmrestd]:
    """Run one until the block ends."""
    fake = FakeSlurmrestd()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            headers = {name.lower(): value for name, value in self.headers.items()}
            fake.requests.append((self.command, self.path, headers, body))
            missing = (404, "text/plain", b"Unable find requested URL.")
            path = self.path.partition("?")[0]
            code, kind, text = fake.answers.get(f"{self.command} {path}", missing)
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_DELETE = answer  # noqa: N815 - names of the base class

        def log_message(self, *args: object) -> None:
            del args

    if socket is None:
        server: socketserver.BaseServer = _Tcp(("127.0.0.1", 0), Handler)
        fake.address = f"http://127.0.0.1:{server.server_address[1]}"  # type: ignore[index]
    else:
        server = _Unix(str(socket), Handler)
        fake.address = f"unix:{socket}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Tcp(socketserver.ThreadingTCPServer):
    daemon_threads = True


class _Unix(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def get_request(self) -> tuple[Any, Any]:
        request, _ = super().get_request()
        return request, ("local", 0)
