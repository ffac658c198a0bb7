"""Model servers that something else starts: what it is told, and what it may answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from patience import free_port
from steward.act.serving.fleet import Order
from steward.act.serving.webhook import SIGNATURE, Webhook, signed
from steward.errors import PermanentError, StewardError, TemporaryError

ORDER = Order(decision="d-1", instance="chat-2", type="chat", model="m", gpus=1, count=2)
SECRET = "hush"  # noqa: S105 - of a test
READY = {"state": "ready", "url": "http://10.0.0.1:8000"}


class Receiver:
    """Answers what a test says, and keeps what it was sent."""

    def __init__(self) -> None:
        self.code = 200
        self.body: bytes = json.dumps(READY).encode()
        self.sent: list[tuple[dict[str, Any], dict[str, str], bytes]] = []
        self.url = ""

    def says(self, code: int = 200, body: object = None) -> None:
        self.code = code
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.sent.append((json.loads(raw), dict(self.headers), raw))
            self.send_response(receiver.code)
            self.send_header("Content-Length", str(len(receiver.body)))
            self.end_headers()
            self.wfile.write(receiver.body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_port}/scale"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


def test_a_start_names_the_decision_the_instance_and_how_many_there_should_be(
    receiver: Receiver,
) -> None:
    found = Webhook(receiver.url).start(ORDER, 0.0)

    body, headers, _ = receiver.sent[0]
    assert found.state == "ready"
    assert found.url == "http://10.0.0.1:8000"
    assert (body["action"], body["instance"], body["desired"]) == ("start", "chat-2", 2)
    assert body["decision"] == headers["X-Steward-Decision"] == "d-1"


def test_repeating_an_order_sends_the_same_bytes(receiver: Receiver) -> None:
    hook = Webhook(receiver.url, secret=SECRET)

    hook.start(ORDER, 0.0)
    Webhook(receiver.url, secret=SECRET).start(ORDER, 99.0)

    assert receiver.sent[0][2] == receiver.sent[1][2]


def test_a_body_is_signed_with_the_secret_and_the_secret_is_not_sent(receiver: Receiver) -> None:
    Webhook(receiver.url, secret=SECRET).start(ORDER, 0.0)

    _, headers, raw = receiver.sent[0]
    assert headers[SIGNATURE] == signed(raw, SECRET)
    assert headers[SIGNATURE] != signed(raw, "other")
    assert SECRET.encode() not in raw


def test_without_a_secret_nothing_is_signed_and_doctor_says_so(receiver: Receiver) -> None:
    hook = Webhook(receiver.url)
    hook.start(ORDER, 0.0)

    assert SIGNATURE not in receiver.sent[0][1]
    assert hook.available().status == "limited"
    assert "secret_file" in hook.available().hint


@pytest.mark.parametrize(("what", "state"), [("start", "coming"), ("stop", "leaving")])
def test_accepted_without_a_body_is_begun(receiver: Receiver, what: str, state: str) -> None:
    receiver.says(202, b"")

    assert getattr(Webhook(receiver.url), what)(ORDER, 0.0).state == state


def test_what_the_receiver_says_is_handed_on(receiver: Receiver) -> None:
    receiver.says(200, {"state": "failed", "text": "no capacity"})
    failed = Webhook(receiver.url).start(ORDER, 0.0)
    receiver.says(200, {"state": "gone"})
    gone = Webhook(receiver.url).stop(replace(ORDER, url="http://10.0.0.1:8000"), 0.0)

    assert (failed.state, failed.text) == ("failed", "no capacity")
    assert gone.state == "gone"
    assert receiver.sent[1][0]["url"] == "http://10.0.0.1:8000"
    assert receiver.sent[1][0]["action"] == "drain"


@pytest.mark.parametrize(
    "body",
    [b"<html>", b"[]", {"nothing": 1}, {"state": "gone"}, {"state": "ready"}, {"state": "?"}],
)
def test_an_answer_that_makes_no_sense_is_given_up_with_what_was_possible(
    receiver: Receiver, body: object
) -> None:
    receiver.says(200, body)

    with pytest.raises(PermanentError) as fault:
        Webhook(receiver.url).start(ORDER, 0.0)

    assert "coming, ready, failed" in fault.value.hint


@pytest.mark.parametrize("code", [408, 429, 500, 503])
def test_what_may_pass_is_tried_again(receiver: Receiver, code: int) -> None:
    receiver.says(code, b"busy")

    with pytest.raises(TemporaryError, match=f"{code}: busy"):
        Webhook(receiver.url).start(ORDER, 0.0)


@pytest.mark.parametrize("code", [400, 401, 404])
def test_what_will_not_pass_is_given_up(receiver: Receiver, code: int) -> None:
    receiver.says(code, b"no")

    with pytest.raises(PermanentError):
        Webhook(receiver.url).stop(ORDER, 0.0)


def test_a_receiver_that_is_not_there_is_tried_again() -> None:
    with pytest.raises(TemporaryError, match="does not answer"):
        Webhook(f"http://127.0.0.1:{free_port()}").start(ORDER, 0.0)


def test_doctor_hears_of_a_receiver_and_plain_http_elsewhere_is_refused() -> None:
    assert Webhook("").available().status == "missing"
    assert Webhook("https://far.site", secret=SECRET).available().status == "ok"
    with pytest.raises(StewardError, match="plain HTTP"):
        Webhook("http://far.site")
