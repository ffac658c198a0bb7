"""Speaking to a steward on this machine through its socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer

import pytest

from steward.clients.local_service import LocalService
from steward.errors import StewardError


@contextmanager
def listening(path: Path, status: int, answer: object) -> Iterator[list[tuple[str, object]]]:
    """Answer every request the same, and return the requests."""
    came: list[tuple[str, object]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            came.append((self.path, json.loads(self.rfile.read(length))))
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


def test_what_is_posted_arrives_and_the_answer_comes_back(tmp_path: Path) -> None:
    with listening(tmp_path / "s", 202, {"user": "ann"}) as came:
        answer = LocalService(tmp_path / "s").post("decisions", "d/1", "approve", body={"note": ""})

    assert answer == {"user": "ann"}
    assert came == [("/api/v1/decisions/d%2F1/approve", {"note": ""})]


def test_a_refusal_keeps_its_message(tmp_path: Path) -> None:
    error = {"problem": "the account 'bob' has no role here", "where": "socket", "hint": "ask ann"}

    with listening(tmp_path / "s", 403, {"error": error}), pytest.raises(StewardError) as caught:
        LocalService(tmp_path / "s").post("decisions", "d-1", "approve", body={})

    assert (caught.value.problem, caught.value.hint) == (error["problem"], "ask ann")


def test_where_no_steward_listens_there_is_no_answer(tmp_path: Path) -> None:
    with listening(tmp_path / "left-behind", 200, {}):
        pass

    assert LocalService(tmp_path / "left-behind").post("x", body={}) is None
    assert LocalService(tmp_path / "none").post("x", body={}) is None
