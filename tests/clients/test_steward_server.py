"""The agent's client: secrets stay secret, and every answer is handled."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from certificates import make_certificates
from steward.clients.steward_server import StewardServer, read_token
from steward.errors import StewardError, TemporaryError

GOOD = b'{"received_s": 100.5, "answered_s": 100.75, "server": "s-1", "repeated": false}'


class Site:
    """A server with prepared answers that records its requests."""

    def __init__(self) -> None:
        self.status, self.body = 200, GOOD
        self.headers: dict[str, str] = {}
        self.requests: list[tuple[str, str, bytes, str | None]] = []

    @contextmanager
    def listening(self, context: ssl.SSLContext | None = None) -> Iterator[str]:
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                queried = (self.command, self.path, self.rfile.read(length))
                site.requests.append((*queried, self.headers.get("Authorization")))
                self.send_response(site.status)
                for name, value in {**site.headers, "Content-Length": str(len(site.body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(site.body)

            do_GET = do_POST  # noqa: N815 - what the library calls it

            def log_message(self, *_args: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"{'https' if context else 'http'}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("stw_abc\n")
    return file


def test_a_parcel_is_posted_with_the_token_and_the_answer_parsed(token_file: Path) -> None:
    site, times = Site(), iter([10.0, 10.5])
    with site.listening() as url:
        server = StewardServer(url + "/", token_file=token_file, now_s=lambda: next(times))
        answer = server.send(b"parcel")
        server.close()

    assert site.requests == [("POST", "/api/v1/agents/parcels", b"parcel", "Bearer stw_abc")]
    assert (answer.status, answer.server) == (200, "s-1")
    assert (answer.sent_s, answer.received_s, answer.answered_s, answer.back_s) == (
        10.0,
        100.5,
        100.75,
        10.5,
    )


def test_the_time_is_requested_without_a_body() -> None:
    site = Site()
    with site.listening() as url:
        server = StewardServer(url)
        answer = server.time()
        server.close()

    assert site.requests == [("GET", "/api/v1/agents/time", b"", None)]
    assert answer.received_s == 100.5


def test_a_refusal_reports_what_where_and_when_to_come_back() -> None:
    site = Site()
    site.status, site.headers = 503, {"Retry-After": "7"}
    site.body = b'{"error": {"problem": "no room", "where": "intake", "hint": ""}}'
    with site.listening() as url:
        server = StewardServer(url)
        answer = server.send(b"")
        server.close()

    assert (answer.status, answer.problem, answer.where) == (503, "no room", "intake")
    assert answer.retry_after_s == 7.0


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"error": 3, "received_s": "x"}'])
def test_an_answer_of_another_program_does_no_harm(body: bytes) -> None:
    site = Site()
    site.status, site.body, site.headers = 502, body, {"Retry-After": "Wed, 21 Oct 2015"}
    with site.listening() as url:
        server = StewardServer(url)
        answer = server.send(b"")
        server.close()

    assert (answer.status, answer.problem) == (502, "Bad Gateway")
    assert answer.retry_after_s is answer.received_s is None


def test_a_new_token_is_read_when_the_old_one_is_refused(token_file: Path) -> None:
    site = Site()
    with site.listening() as url:
        server = StewardServer(url, token_file=token_file)
        token_file.write_text("stw_new\n")
        site.status = 401
        server.send(b"")
        site.status = 200
        server.send(b"")
        token_file.unlink()
        site.status = 401
        server.send(b"")
        server.close()

    assert [queried[3] for queried in site.requests] == [
        "Bearer stw_abc",
        "Bearer stw_new",
        "Bearer stw_new",
    ]


def test_a_closed_port_is_a_temporary_fault() -> None:
    with Site().listening() as url:
        pass
    server = StewardServer(url)

    with pytest.raises(TemporaryError, match="no answer"):
        server.send(b"")
    server.close()


@pytest.mark.parametrize(
    "url", ["", "steward", "ftp://host", "https://", "https://me:secret@host", "http://h:x"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(StewardError, match="no address of a server"):
        StewardServer(url)


@pytest.mark.parametrize("url", ["http://10.0.0.1:8787", "http://steward.example"])
def test_an_agent_sends_nothing_over_the_network_in_the_clear(url: str, token_file: Path) -> None:
    for token in (token_file, None):
        with pytest.raises(StewardError, match="plain HTTP to another machine") as fault:
            StewardServer(url, token_file=token)
        assert "https://" in fault.value.hint
        assert "plain_http = true" in fault.value.hint
    StewardServer(url, token_file=token_file, plain_http=True).close()


@pytest.mark.parametrize("url", ["http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1"])
def test_a_token_may_go_to_this_machine_in_the_clear(url: str, token_file: Path) -> None:
    StewardServer(url, token_file=token_file).close()


@pytest.mark.parametrize("content", [b"", b"two words", b"two\nlines", b"\xff\xfe"])
def test_a_file_that_holds_no_token_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)

    with pytest.raises(StewardError, match="token"):
        read_token(tmp_path / "token")


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match=r"token: the token cannot be read: no such file"):
        read_token(tmp_path / "token")
    with pytest.raises(StewardError, match=r"ca\.pem: these certificates cannot be used"):
        StewardServer("https://host", ca_file=tmp_path / "ca.pem")


# -- TLS ---------------------------------------------------------------------------------------


@pytest.mark.real  # needs the program `openssl`
def test_over_tls_the_server_has_to_show_a_certificate_that_we_trust(
    tmp_path: Path, token_file: Path
) -> None:
    context, site = make_certificates(tmp_path), Site()
    with site.listening(context) as url:
        trusting = StewardServer(url, token_file=token_file, ca_file=tmp_path / "ca.pem")
        answer = trusting.send(b"parcel")
        trusting.close()
        untrusting = StewardServer(url, token_file=token_file)
        with pytest.raises(TemporaryError, match="certificate"):
            untrusting.send(b"parcel")
        untrusting.close()
        elsewhere = StewardServer(
            url.replace("127.0.0.1", "localhost"),
            token_file=token_file,
            ca_file=tmp_path / "ca.pem",
        )
        with pytest.raises(TemporaryError, match="certificate"):
            elsewhere.send(b"parcel")
        elsewhere.close()

    assert answer.status == 200
    assert len(site.requests) == 1  # the token was sent nowhere else
