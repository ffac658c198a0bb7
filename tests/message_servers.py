"""Real servers on this machine that take messages: HTTP, and a small SMTP."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from steward.model.finding import Severity
from steward.model.message import Message

T_S = 1_700_000_000.0


def message(key: str = "k", **changes: Any) -> Message:
    values: dict[str, Any] = {
        "key": key,
        "t_s": T_S,
        "kind": "finding",
        "severity": Severity.WASTE,
        "title": f"{key} is idle",
    }
    return Message(**{**values, **changes})


class Inbox:
    """What a server was sent. `statuses` are what it answers next; then always 200."""

    def __init__(self) -> None:
        self.url = ""
        self.port = 0
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.statuses: list[int] = []
        self.mails: list[tuple[str, list[str], str]] = []
        self.codes: list[str] = []  # what SMTP answers to RCPT next


@contextmanager
def http_inbox() -> Iterator[Inbox]:
    inbox = Inbox()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("content-length", 0))
            body = self.rfile.read(size)
            status = inbox.statuses.pop(0) if inbox.statuses else 200
            if status == 200:
                inbox.bodies.append(body)
                inbox.headers.append(dict(self.headers))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    inbox.port = server.server_address[1]
    inbox.url = f"http://127.0.0.1:{inbox.port}/hook"
    with _running(server):
        yield inbox


class _Smtp(socketserver.StreamRequestHandler):
    inbox: Inbox

    def handle(self) -> None:
        self._sender, self._readers = "", list[str]()
        self._say("220 test")
        while line := self.rfile.readline():
            word, _, rest = line.decode().strip().partition(" ")
            answer = getattr(self, f"on_{word.lower()}", self._other)
            self._say(answer(rest))
            if word.upper() == "QUIT":
                return

    def on_mail(self, rest: str) -> str:
        self._sender, self._readers = rest, []
        return "250 ok"

    def on_rcpt(self, rest: str) -> str:
        code = self.inbox.codes.pop(0) if self.inbox.codes else "250 ok"
        self._readers += [rest] if code.startswith("250") else []
        return code

    def on_data(self, _: str) -> str:
        self._say("354 go on")
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.decode())
        self.inbox.mails.append((self._sender, self._readers, "".join(lines)))
        return "250 taken"

    def on_quit(self, _: str) -> str:
        return "221 bye"

    def _other(self, _: str) -> str:
        return "250 ok"

    def _say(self, text: str) -> None:
        self.wfile.write(text.encode() + b"\r\n")


@contextmanager
def smtp_inbox() -> Iterator[Inbox]:
    inbox = Inbox()
    handler = type("Handler", (_Smtp,), {"inbox": inbox})
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    inbox.port = server.server_address[1]
    with _running(server):
        yield inbox


@contextmanager
def _running(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
