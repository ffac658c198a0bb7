"""A command that waits for a job outlasts a steward that is busy or being restarted."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

from cli.jobs.test_jobs import Site

BUSY = {"error": {"problem": "too many requests", "where": "", "hint": "try again in 1 s"}}


@contextmanager
def answering(path: Path, replies: list[tuple[int, dict[str, Any]]]) -> Iterator[None]:
    """Give these answers in turn, the last one for ever; 0 closes the connection without one."""
    left = list(replies)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = left.pop(0) if len(left) > 1 else left[0]
            if status == 0:
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def address_string(self) -> str:
            return "local"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            pass

    path.parent.mkdir(parents=True)
    with ThreadingUnixStreamServer(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield
        server.shutdown()
        thread.join()


def test_waiting_goes_on_while_steward_is_busy_or_breaks_off(tmp_path: Path) -> None:
    over = (200, {"exit_code": 7})
    replies = [(429, BUSY), (0, {}), (503, BUSY), (200, {"exit_code": None}), over]
    with answering(tmp_path / "data" / "steward.sock", replies):
        done = Site(tmp_path).run("wait", "1", check=False)

    assert (done.code, done.err) == (7, "")


def test_a_log_is_followed_while_steward_is_busy(tmp_path: Path) -> None:
    first = {"path": "", "text": "a", "offset": 1, "over": False}
    last = {"path": "", "text": "b", "offset": 2, "over": True}
    replies = [(200, first), (429, BUSY), (200, last), (200, {**last, "text": ""})]
    with answering(tmp_path / "data" / "steward.sock", replies):
        done = Site(tmp_path).run("logs", "--follow", "1")

    assert done.out == "ab"
