"""A Unix socket that answers as a running steward would."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer


@contextmanager
def listening(path: Path, status: int, answer: object) -> Iterator[list[tuple[str, object]]]:
    """Answer every request the same, and return the requests."""
    came: list[tuple[str, object]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            came.append((self.path, json.loads(self.rfile.read(length))))
            self._answer()

        def do_GET(self) -> None:
            came.append((self.path, None))
            self._answer()

        def _answer(self) -> None:
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_rest: object) -> None: ...

    with UnixStreamServer(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield came
        finally:
            server.shutdown()
            thread.join()
