"""Remote write and OTLP over HTTP and gRPC are answered as their specifications ask for."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import httpx
import pytest
from fastapi import FastAPI
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)

from patience import LONG_S
from service.bed import Client, ServiceBed, build_bed
from steward.clients.otlp import OtlpGrpc
from steward.clients.web import Endpoint
from steward.clients.wire.otlp import LogRecord, OutgoingSeries, encode_logs, encode_metrics
from steward.errors import PermanentError, TemporaryError
from steward.observe.intake import Intake
from steward.observe.intake.budget import ByteBudget
from steward.observe.receive import Decoders
from steward.service.app import create_api
from steward.service.failures import handle_failures
from steward.service.wire import wire_routes
from steward.service.wire.grpc_server import OtlpServer
from steward.store.tokens import Role
from wire_messages import T_MS, one_series, recorded

WRITE = {"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf"}
ON_N01 = {"host.name": "n01"}
PROTOBUF = {"Content-Type": "application/x-protobuf"}
BUSY = OutgoingSeries(
    name="gpu.busy_share",
    unit="1",
    attributes={"node": "n01", "gpu": "0"},
    counter=False,
    t_ns=[T_MS * 10**6],
    values=[0.5],
)
METRICS = encode_metrics({}, [BUSY])


class Room:
    """A bed whose intake takes what is pushed."""

    def __init__(self, folder: Path, *, max_series: int = 1000, **service: Any) -> None:
        self.bed: ServiceBed = build_bed(folder, **service)
        self.intake = Intake(folder / "intake")
        self.intake.decoders.update(Decoders(max_series=max_series).by_kind)
        app = create_api(self.bed.live_state, self.bed.access, self.bed.lab, intake=self.intake)
        host = self.bed.live_state.settings.service.host
        self.token = self.bed.tokens.make("prometheus", Role.AGENT, node="*")
        self.client = Client(app, f"http://{host}:8787", token=self.token)

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
        return self.client.post(path, content=body, headers=headers)

    def seen(self) -> list[dict[str, Any]]:
        return [row for table in self.intake.collect(1.0).tables for row in table.to_dicts()]

    def close(self) -> None:
        self.intake.close()
        self.bed.lab.close()
        self.bed.loop.close()


@pytest.fixture
def make_room(tmp_path: Path) -> Iterator[Callable[..., Room]]:
    rooms: list[Room] = []

    def make(**rest: Any) -> Room:
        folder = tmp_path / str(len(rooms))
        folder.mkdir()
        rooms.append(Room(folder, **rest))
        return rooms[-1]

    yield make
    for room in rooms:
        room.close()


@pytest.fixture(scope="module")
def shared_room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    room = Room(tmp_path_factory.mktemp("room"))
    yield room
    room.close()


@pytest.fixture
def room(shared_room: Room) -> Room:
    """Return a room that many tests use: whatever was in its intake is taken out first."""
    shared_room.seen()
    return shared_room


# -- remote write ----------------------------------------------------------------------------------


def test_what_a_real_prometheus_sends_is_taken(room: Room) -> None:
    answer = room.post("/api/v1/write", recorded(1), WRITE)

    assert answer.status_code == 204
    assert {"n01/gpu0", "n01/gpu1"} <= {row["entity"] for row in room.seen()}


def test_what_cannot_be_read_is_answered_400_with_the_reason(room: Room) -> None:
    answer = room.post("/api/v1/write", b"hello", WRITE)

    assert answer.status_code == 400
    assert "is not snappy" in answer.text
    assert room.seen() == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"},
        {"Content-Type": "text/plain"},
        {"Content-Encoding": "gzip"},
    ],
)
def test_senders_of_anything_but_version_1_are_told_to_fall_back(
    room: Room, headers: dict[str, str]
) -> None:
    answer = room.post("/api/v1/write", recorded(1), WRITE | headers)

    assert answer.status_code == 415
    assert "prometheus.WriteRequest" in answer.json()["error"]["hint"]


def test_a_label_explosion_is_answered_400_and_known_series_go_on(
    make_room: Callable[..., Room],
) -> None:
    room = make_room(max_series=5)

    answer = room.post("/api/v1/write", recorded(1), WRITE)

    assert answer.status_code == 400
    assert "10 samples of new series" in answer.text
    assert room.seen()  # of those that it had room for


def test_samples_of_a_time_to_come_are_refused(room: Room) -> None:
    body = one_series({"__name__": "up"}, [1.0], t_ms=int((time.time() + 3600) * 1000))

    answer = room.post("/api/v1/write", body, WRITE)

    assert answer.status_code == 400
    assert "ahead of this machine's clock" in answer.text


class Full:
    """An intake without room."""

    budget = ByteBudget()

    def accept(self, _kind: str, _body: bytes, **_rest: object) -> bool:
        raise TemporaryError("no room", hint="later")


def test_bodies_share_one_budget_of_memory_and_beyond_it_senders_wait(
    make_room: Callable[..., Room],
) -> None:
    room = make_room()
    paths = (("/api/v1/write", recorded(1), WRITE), ("/v1/metrics", METRICS, PROTOBUF))
    room.intake.budget = ByteBudget(room.intake.budget.most_bytes)

    with room.intake.budget.reserve(room.intake.budget.most_bytes // 5):
        held = [room.post(*each) for each in paths]
        held.append(room.post("/api/v1/agents/parcels", b"x", {}))
    free = [room.post(*each) for each in paths]

    assert [(each.status_code, each.headers["retry-after"]) for each in held] == [(503, "2")] * 3
    assert [each.status_code for each in free] == [204, 200]
    assert room.intake.budget.used_bytes == 0


def test_a_body_without_a_length_is_reserved_for_as_it_comes(
    make_room: Callable[..., Room],
) -> None:
    room = make_room()
    room.intake.budget = ByteBudget(5 * 100)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield bytes(60)

    answer = room.client.post("/api/v1/write", content=pieces(), headers=WRITE)

    assert answer.status_code == 503
    assert room.intake.budget.used_bytes == 0


def test_a_client_that_hangs_up_is_no_traceback(make_room: Callable[..., Room]) -> None:
    room = make_room()
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": b"x" * 10, "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    user = SimpleNamespace(name="p", role=Role.AGENT, node="*", may_decide=False)
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/write",
        "raw_path": b"/api/v1/write",
        "query_string": b"",
        "headers": [(b"content-length", b"1000")],
        "client": ("127.0.0.1", 1),
        "state": {"user": user},
    }
    app = FastAPI()
    app.include_router(wire_routes(room.intake))
    handle_failures(app)
    asyncio.run(app(scope, receive, send))  # raises what would become a traceback

    assert sent[0]["status"] == 400
    assert room.intake.budget.used_bytes == 0


def test_log_records_that_are_refused_are_told_as_partial_success(room: Room) -> None:
    good, bad = (
        LogRecord(t_ns=t_ns, severity=9, text="x", resource=ON_N01, attributes={})
        for t_ns in (T_MS * 10**6, 2**63)
    )

    answer = room.post("/v1/logs", encode_logs([good, bad]), PROTOBUF)

    said = ExportLogsServiceResponse.FromString(answer.content).partial_success
    assert answer.status_code == 200
    assert said.rejected_log_records == 1
    assert "ahead of this machine's clock" in said.error_message
    assert len(room.intake.collect(1.0).lines) == 1
    assert room.post("/v1/logs", encode_logs([bad]), PROTOBUF).status_code == 400


def test_an_intake_that_is_full_asks_to_wait(room: Room) -> None:
    bed = room.bed
    full: Any = Full()
    client = Client(
        create_api(bed.live_state, bed.access, bed.lab, intake=full),
        "http://127.0.0.1:8787",
        token=bed.tokens.make("other", Role.AGENT, node="*"),
    )

    write = client.post("/api/v1/write", content=recorded(1), headers=WRITE)
    otlp = client.post("/v1/metrics", content=METRICS, headers=PROTOBUF)

    assert [(each.status_code, each.headers["retry-after"]) for each in (write, otlp)] == [
        (503, "5"),
        (503, "5"),
    ]


# -- OTLP over HTTP ----------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
def test_otlp_metrics_are_taken_as_protobuf(room: Room, *, packed: bool) -> None:
    body = gzip.compress(METRICS) if packed else METRICS
    headers = PROTOBUF | ({"Content-Encoding": "gzip"} if packed else {})

    answer = room.post("/v1/metrics", body, headers)

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-protobuf"
    said = ExportMetricsServiceResponse.FromString(answer.content)
    assert not said.HasField("partial_success")
    assert [row["gpu.busy_share"] for row in room.seen()] == [0.5]


def test_otlp_metrics_are_taken_as_json_and_answered_so(room: Room) -> None:
    point = {"asDouble": 0.25, "timeUnixNano": str(T_MS * 10**6)}
    metric = {"name": "host.load_1m", "gauge": {"dataPoints": [point]}}
    resource = {"attributes": [{"key": "host.name", "value": {"stringValue": "n7"}}]}
    text = {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": [metric]}]}]}
    headers = {"Content-Type": "application/json"}

    answer = room.post("/v1/metrics", json.dumps(text).encode(), headers)
    wrong = room.post("/v1/metrics", b"{", headers)

    assert (answer.status_code, answer.json()) == (200, {})
    assert [(row["entity"], row["host.load_1m"]) for row in room.seen()] == [("n7", 0.25)]
    assert wrong.status_code == 400
    assert "not OTLP in JSON" in wrong.json()["message"]


def test_what_is_refused_of_an_otlp_request_is_told_as_partial_success(
    make_room: Callable[..., Room],
) -> None:
    room = make_room(max_series=1)
    other = OutgoingSeries(name="b", unit="", attributes={}, counter=False, t_ns=[1], values=[1.0])

    answer = room.post("/v1/metrics", encode_metrics({}, [BUSY, other]), PROTOBUF)

    said = ExportMetricsServiceResponse.FromString(answer.content).partial_success
    assert answer.status_code == 200
    assert said.rejected_data_points == 1
    assert "at most 1 series" in said.error_message


def test_otlp_logs_become_lines(room: Room) -> None:
    record = LogRecord(
        t_ns=T_MS * 10**6, severity=17, text="Xid 79", resource=ON_N01, attributes={}
    )

    answer = room.post("/v1/logs", encode_logs([record]), PROTOBUF)

    assert answer.status_code == 200
    (line,) = room.intake.collect(1.0).lines
    assert (line.entity, line.text, line.level) == ("n01", "Xid 79", 3)


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"\xff\xff\xff", PROTOBUF, 400),
        (b"x", PROTOBUF | {"Content-Encoding": "gzip"}, 400),
        (b"x", PROTOBUF | {"Content-Encoding": "br"}, 415),
        (b"x", {"Content-Type": "text/csv"}, 415),
        (gzip.compress(bytes(40 * 2**20), mtime=0), PROTOBUF | {"Content-Encoding": "gzip"}, 400),
    ],
)
def test_hostile_otlp_is_refused(
    room: Room, body: bytes, headers: dict[str, str], status: int
) -> None:
    assert room.post("/v1/metrics", body, headers).status_code == status
    assert room.seen() == []


# -- who may ---------------------------------------------------------------------------------------


def test_only_those_who_may_speak_of_all_nodes_may_push(make_room: Callable[..., Room]) -> None:
    room = make_room(host="0.0.0.0")  # noqa: S104 - a name, nothing listens
    tokens = room.bed.tokens
    made = {
        "nobody": {"Authorization": ""},
        "viewer": room.bed.bearer("v", Role.VIEWER),
        "operator": room.bed.bearer("o", Role.OPERATOR),
        "agent": {"Authorization": f"Bearer {tokens.make('a', Role.AGENT)}"},
        "any": {"Authorization": f"Bearer {tokens.make('b', Role.AGENT, node='*')}"},
    }

    status = {
        who: room.post("/api/v1/write", recorded(1), WRITE | header).status_code
        for who, header in made.items()
    }

    assert status == {"nobody": 401, "viewer": 403, "operator": 403, "agent": 403, "any": 204}


def test_pushing_is_limited_in_size_and_not_in_number(make_room: Callable[..., Room]) -> None:
    room = make_room(requests_per_minute=2, upload_limit_bytes=2000, body_limit_bytes=10)

    answers = [room.post("/api/v1/write", recorded(1), WRITE).status_code for _ in range(5)]
    large = room.post("/api/v1/write", bytes(3000), WRITE)

    assert answers == [204] * 5
    assert large.status_code == 413


# -- OTLP over gRPC ----------------------------------------------------------------------------


@pytest.fixture
def otlp(room: Room) -> Iterator[tuple[Room, OtlpServer]]:
    server = OtlpServer(room.intake, room.bed.access, port=0, most_bytes=100_000)
    server.start()
    yield room, server
    server.stop(within_s=0.1)


def test_otlp_over_grpc_brings_metrics_and_logs(otlp: tuple[Room, OtlpServer]) -> None:
    room, server = otlp
    client = OtlpGrpc(Endpoint(url=f"http://127.0.0.1:{server.port}", token=room.token))
    record = LogRecord(t_ns=1, severity=9, text="hello", resource=ON_N01, attributes={})

    client.send_metrics(METRICS)
    client.send_logs(encode_logs([record]))
    client.close()

    seen = room.intake.collect(1.0)
    assert seen.tables[0]["entity"].to_list() == ["n01/gpu0"]
    assert seen.lines[0].text == "hello"


def test_grpc_refuses_what_it_cannot_read_and_what_is_too_large(
    otlp: tuple[Room, OtlpServer],
) -> None:
    room, server = otlp
    client = OtlpGrpc(Endpoint(url=f"http://127.0.0.1:{server.port}", token=room.token))

    with pytest.raises(PermanentError, match="invalid_argument"):
        client.send_metrics(b"\xff\xff")
    with pytest.raises(TemporaryError, match="resource_exhausted"):
        client.send_metrics(bytes(2_000_000))  # a few hundred bytes until they are unpacked
    client.close()

    assert room.seen() == []


def test_grpc_needs_an_agents_token_as_http_does(make_room: Callable[..., Room]) -> None:
    room = make_room()
    server = OtlpServer(room.intake, room.bed.access, port=0)
    server.start()
    address = f"http://127.0.0.1:{server.port}"

    for token in ("", room.bed.tokens.make("o", Role.OPERATOR)):
        with pytest.raises(PermanentError, match="permission_denied"):
            OtlpGrpc(Endpoint(url=address, token=token)).send_metrics(METRICS)
    OtlpGrpc(Endpoint(url=address, token=room.token)).send_metrics(METRICS)
    server.stop(within_s=0.1)

    assert len(room.seen()) == 1


def test_an_unknown_grpc_method_is_not_implemented(otlp: tuple[Room, OtlpServer]) -> None:
    _, server = otlp
    with (
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
        pytest.raises(grpc.RpcError) as refused,
    ):
        channel.unary_unary("/x/Y")(b"", timeout=LONG_S)

    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
