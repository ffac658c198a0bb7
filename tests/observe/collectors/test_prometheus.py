"""Exporters and a Prometheus server are sources like any other."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from steward.errors import StewardError
from steward.observe.collectors.prometheus import Prometheus
from steward.observe.normalise import Normaliser
from wire_messages import RECORDED

Answer = Callable[[str], tuple[int, str, bytes]]


@contextmanager
def serving(answer: Answer) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Run a small HTTP server; gives its address and the headers of the requests."""
    received: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.append({name.lower(): value for name, value in self.headers.items()})
            status, kind, body = answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_rest: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        server.server_close()


def text(_path: str) -> tuple[int, str, bytes]:
    return 200, "text/plain; version=0.0.4", (RECORDED / "exposition.txt").read_bytes()


def test_an_exporter_becomes_samples_that_need_no_more_translation() -> None:
    with serving(text) as (address, received):
        collector = Prometheus(targets=(f"n07={address}/metrics",))
        seen = [collector.collect(t_s) for t_s in (1000.0, 1010.0)][-1]

    tables = {tuple(sorted(set(t["entity"]))): t for t in seen.tables}
    assert set(tables) == {("n07/gpu0", "n07/gpu1"), ("n07",)}  # the node is as configured
    assert tables["n07",]["host.load_1m"].to_list() == [1.25]
    assert tables["n07",]["host.cpu.user_cores"].to_list() == [0.0]
    for table in seen.tables:
        _, events = Normaliser(source="x", vocabulary=collector.vocabulary).normalise(table)
        assert events == ()
    assert seen.other["entity"].to_list() == [
        'n07{engine="0",model_name="meta-llama/Llama-3.1-8B"}'
    ]
    assert "openmetrics" in received[0]["accept"]


def test_a_target_without_a_name_is_named_by_its_address() -> None:
    with serving(lambda _path: (200, "text/plain", b"node_load1 3\n")) as (address, _):
        seen = Prometheus(targets=(f"{address}/metrics",)).collect(1000.0)

    assert seen.tables[0].rows() == [(1000.0, "127.0.0.1", 3.0)]


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (500, b"oops", "answers 500: oops"),
        (200, b"<html>hi</html>", "line 1"),
        (302, b"", "answers 302"),
    ],
)
def test_an_exporter_that_fails_is_named_once_and_others_are_still_read(
    status: int, body: bytes, message: str
) -> None:
    working = [False]

    def answer(path: str) -> tuple[int, str, bytes]:
        if path == "/good" or working[0]:
            return 200, "text/plain", b"node_load1 3\n"
        return status, "text/plain", body

    with serving(answer) as (address, _):
        collector = Prometheus(targets=(f"bad={address}/bad", f"good={address}/good"))
        first, second = collector.collect(1.0), collector.collect(2.0)
        working[0] = True
        third = collector.collect(3.0)

    assert [(event.kind, event.subject) for event in first.events] == [
        ("telemetry.scrape-failed", f"{address}/bad")
    ]
    assert message in first.events[0].text
    assert first.tables[0]["entity"].to_list() == ["good"]
    assert second.events == ()
    assert [event.kind for event in third.events] == ["telemetry.scrape-works"]


def test_a_closed_port_is_an_event_and_no_fault() -> None:
    seen = Prometheus(targets=("http://127.0.0.1:1/metrics",)).collect(1.0)

    assert "cannot be reached" in seen.events[0].text


def test_answers_of_a_server_become_samples_of_our_metrics(tmp_path: Path) -> None:
    def answer(path: str) -> tuple[int, str, bytes]:
        queried = parse_qs(urlsplit(path).query)["query"][0]
        labels = (
            {"node": "n01", "gpu": "3"} if "busy" in queried else {"__name__": "up", "node": "n2"}
        )
        result = [{"metric": labels, "value": [1000.5, "0.25"]}]
        message = {"status": "success", "data": {"resultType": "vector", "result": result}}
        return 200, "application/json", json.dumps(message).encode()

    (tmp_path / "token").write_text("secret\n")
    with serving(answer) as (address, received):
        seen = Prometheus(
            server=address,
            queries={"gpu.busy_share": "avg(busy)", "up": "up"},
            token_file=str(tmp_path / "token"),
        ).collect(1000.0)

    assert seen.tables[0].rows() == [(1000.5, "n01/gpu3", 0.25)]
    assert seen.other.rows() == [(1000.5, "n2", "up", 0.25)]
    assert received[0]["authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>", "not as a Prometheus"),
        (b'{"status":"error","error":"parse error"}', "parse error"),
        (b'{"status":"success","data":{"resultType":"string","result":[]}}', "kind 'string'"),
        (
            b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{}}]}}',
            "malformed",
        ),
    ],
)
def test_a_server_that_answers_strangely_is_named(body: bytes, message: str) -> None:
    with serving(lambda _path: (200, "application/json", body)) as (address, _):
        seen = Prometheus(server=address, queries={"x": "y"}).collect(1.0)

    assert message in seen.events[0].text


def test_without_a_source_it_reports_what_to_set() -> None:
    state = Prometheus().available()

    assert state.status == "missing"
    assert "[plugs.prometheus]" in state.hint
    assert Prometheus(targets=("https://x/metrics",)).available().status == "ok"


def test_an_address_that_is_none_is_refused_when_it_is_made() -> None:
    with pytest.raises(StewardError, match="is not an address"):
        Prometheus(targets=("n01:9100",))
    with pytest.raises(StewardError, match="token cannot be read"):
        Prometheus(targets=("https://x",), token_file="/no/such/file")  # noqa: S106
