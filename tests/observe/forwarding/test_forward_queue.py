"""What is observed reaches its receivers; a bad receiver costs its own samples and nothing else."""

from __future__ import annotations

import time
from concurrent import futures

import grpc
import pytest

from observe.forwarding.receivers import T0, in_order, line, look, receiver, target
from patience import LONG_S, until
from steward.clients.otlp import LOGS_METHOD, METRICS_METHOD
from steward.clients.wire.otlp import decode_logs, decode_metrics, point_of_key
from steward.model.event import Observation
from steward.observe.forwarding import Forwarder
from steward.observe.forwarding.forward_queue import ForwardQueue


def test_looks_arrive_by_remote_write_in_the_order_of_their_times() -> None:
    with receiver() as site:
        forwarding = Forwarder([target(site.url)])
        for turn in range(5):
            forwarding.take(look(10.0 * turn + 5.0, 10.0 * turn), T0)
            forwarding.go()
        forwarding.close()

    points = site.points()
    assert [t_s for _, t_s, _ in points] == [5.0 * step for step in range(10)]
    assert {name for name, _, _ in points} == {"steward_gpu_busy_share n1/0"}
    assert site.bodies[0][0] == "/api/v1/write"
    assert forwarding.status[0].sent_samples == 10
    assert forwarding.status[0].waiting_samples == 0


def test_a_sample_that_comes_too_late_is_left_out_and_counted() -> None:
    with receiver() as site:
        forwarding = Forwarder([target(site.url)])
        forwarding.take(look(1.0, 2.0, 3.0), T0)
        forwarding.go()
        forwarding.take(look(2.0, 3.0, 4.0), T0)
        forwarding.go()
        forwarding.close()

    assert in_order(site.points())
    assert [t_s for _, t_s, _ in site.points()] == [1.0, 2.0, 3.0, 4.0]
    assert forwarding.status[0].dropped_samples["late"] == 2


def test_two_tables_of_one_look_become_one_series() -> None:
    with receiver() as site:
        forwarding = Forwarder([target(site.url)])
        tables = (*look(1.0, 3.0).frames, *look(2.0, 4.0).frames)
        forwarding.take(Observation(frames=tables), T0)
        forwarding.go()
        forwarding.close()

    assert [t_s for _, t_s, _ in site.points()] == [1.0, 2.0, 3.0, 4.0]


def test_what_is_far_behind_travels_by_itself() -> None:
    with receiver() as site:
        forwarding = Forwarder([target(site.url)])
        away = look(0.0, entity="n9/gpu0").frames
        forwarding.take(Observation(frames=(*look(7200.0).frames, *away)), T0)
        forwarding.go()
        forwarding.close()

    assert len(site.bodies) == 2
    assert [t_s for _, t_s, _ in site.points()] == [0.0, 7200.0]


def test_only_the_metrics_that_were_requested_are_sent() -> None:
    with receiver() as site:
        forwarding = Forwarder([target(site.url, metrics=("gpu.power_*",))])
        forwarding.take(look(1.0), T0)
        forwarding.go()
        forwarding.take(look(1.0, metric="gpu.power_watts"), T0)
        forwarding.go()
        forwarding.close()

    assert {name for name, _, _ in site.points()} == {"steward_gpu_power_watts n1/0"}


def test_a_receiver_that_comes_back_gets_what_waited() -> None:
    with receiver() as site:
        site.status = 503
        forwarding = Forwarder([target(site.url)])
        forwarding.take(look(1.0), T0)
        forwarding.go()
        forwarding.take(look(2.0), T0)
        forwarding.go()
        until(lambda: site.requests >= 2)
        waiting, trouble = forwarding.status[0].waiting_samples, forwarding.status[0].trouble

        site.status = 200
        until(lambda: forwarding.status[0].sent_samples == 2)
        forwarding.close()

    assert waiting == 2
    assert "answers 503" in trouble
    assert forwarding.status[0].trouble == ""
    assert [t_s for _, t_s, _ in site.points()] == [1.0, 2.0]


def test_when_too_much_waits_the_oldest_look_goes_and_that_is_reported_once() -> None:
    with receiver() as site:
        site.slow_s = 30.0
        outlet = ForwardQueue(target(site.url), most_bytes=3 * 24)
        outlet.take(look(0.0))
        outlet.go()
        until(lambda: site.requests == 1)  # it is on its way, and no longer waits
        result = []
        for turn in range(1, 8):
            outlet.take(look(float(turn)))
            outlet.go()
            result.append(outlet.drop_event(T0 + turn))

        site.released.set()
        until(lambda: outlet.status.sent_samples == 4)
        outlet.close(time.monotonic() + LONG_S)

    assert [t_s for _, t_s, _ in site.points()] == [0.0, 5.0, 6.0, 7.0]
    assert outlet.status.dropped_samples["full"] == 4
    (event,) = [each for each in result if each]
    assert (event.kind, event.subject) == ("telemetry.forward-dropped", "forward.site")


def test_a_look_larger_than_the_queue_is_sent_all_the_same() -> None:
    with receiver() as site:
        outlet = ForwardQueue(target(site.url), most_bytes=1)
        outlet.take(look(*range(50)))
        outlet.go()
        outlet.close(time.monotonic() + LONG_S)

    assert outlet.status.sent_samples == 50


def test_what_is_refused_is_counted_and_reported_with_the_reason() -> None:
    with receiver() as site:
        site.status = 401
        forwarding = Forwarder([target(site.url)])
        forwarding.take(look(1.0), T0)
        forwarding.go()
        until(lambda: forwarding.status[0].dropped_samples["refused"] == 1)
        first = forwarding.take(look(2.0), T0 + 1)
        forwarding.go()
        until(lambda: forwarding.status[0].dropped_samples["refused"] == 2)
        second = forwarding.take(Observation(), T0 + 2)
        forwarding.go()
        forwarding.close()

    assert "answers 401" in first[0].text
    assert second == ()
    assert "answers 401" in forwarding.status[0].trouble


def test_after_an_hour_without_drops_the_next_is_reported_again() -> None:
    with receiver() as site:
        site.status = 400
        forwarding = Forwarder([target(site.url)])
        result = []
        for turn, t_s in enumerate((0.0, 3000.0, 6000.0, 9700.0)):
            forwarding.take(look(t_s), T0)
            forwarding.go()
            until(lambda n=turn: forwarding.status[0].dropped_samples["refused"] == n + 1)
            result.append(len(forwarding.take(Observation(), T0 + t_s)))
        forwarding.close()

    assert result == [1, 0, 0, 1]


@pytest.mark.parametrize("trouble", ["slow", "away", "busy"])
def test_closing_does_not_wait_for_a_receiver_in_trouble(trouble: str) -> None:
    with receiver() as site:
        site.slow_s = 200.0 if trouble == "slow" else 0.0
        site.status = 503 if trouble == "busy" else 200
        url = "http://127.0.0.1:9" if trouble == "away" else site.url
        forwarding = Forwarder([target(url, name=name) for name in "abc"])
        for turn in range(20):
            forwarding.take(look(float(turn)), T0)
            forwarding.go()

        began_s = time.monotonic()
        forwarding.close()
        took_s, status = time.monotonic() - began_s, forwarding.status

    assert took_s < 100.0  # two seconds, on a machine that has nothing else to do
    for each in status:
        assert each.sent_samples == 0
        assert each.dropped_samples["closed"] + each.waiting_samples == 20


def test_a_slow_receiver_costs_neither_the_observer_nor_the_others() -> None:
    with receiver() as slow, receiver() as quick:
        slow.slow_s = 30.0
        forwarding = Forwarder([target(slow.url, name="slow"), target(quick.url, name="quick")])
        for turn in range(100):
            forwarding.take(look(float(turn)), T0)
            forwarding.go()
        until(lambda: forwarding.status[1].sent_samples == 100)
        waiting = forwarding.status[0].waiting_samples
        slow.released.set()
        forwarding.close()

    assert waiting == 100  # so many turns went by while one was being sent
    assert in_order(quick.points())


def test_otlp_over_http_takes_metrics_and_lines() -> None:
    with receiver() as site:
        way = {"token": "geheim"}
        forwarding = Forwarder([target(site.url, "otlp-http", lines=True, endpoint=way)])
        lines = (line("Xid 79", level=3), line("step 1", entity="job:8", source="train.log"))
        forwarding.take(Observation(frames=look(1.0).frames, lines=lines), T0)
        forwarding.go()
        forwarding.close()

    assert site.otlp_names() == {"hw.gpu.utilization"}
    xid, step = site.records()
    assert (xid.text, xid.severity, xid.t_ns) == ("Xid 79", 17, int(T0) * 10**9)
    assert xid.resource == {"host.name": "n1", "service.name": "kernel"}
    assert step.resource == {"job_id": "8", "service.name": "train.log"}
    assert {headers["Authorization"] for _, headers, _ in site.bodies} == {"Bearer geheim"}
    assert forwarding.status[0].sent_lines == 2


def test_lines_stay_here_unless_they_were_requested() -> None:
    with receiver() as site:
        forwarding = Forwarder([target(site.url, "otlp-http")])
        forwarding.take(Observation(frames=look(1.0).frames, lines=(line("secret"),)), T0)
        forwarding.go()
        forwarding.close()

    assert [path for path, _, _ in site.bodies] == ["/v1/metrics"]


def test_otlp_over_grpc_takes_metrics_and_lines_from_a_user_with_a_password() -> None:
    taken: list[tuple[str, bytes, str]] = []

    class Handler(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
        def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            message = dict(call.invocation_metadata)["authorization"]

            def take(body: bytes, _context: object) -> bytes:
                taken.append((call.method, body, message))
                return b""

            return grpc.unary_unary_rpc_method_handler(take)

    server = grpc.server(futures.ThreadPoolExecutor(1), handlers=[Handler()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    known = {"user": "me", "password": "geheim"}
    site = target(f"http://127.0.0.1:{port}", "otlp-grpc", lines=True, endpoint=known)
    forwarding = Forwarder([site])
    forwarding.take(Observation(frames=look(1.0).frames, lines=(line("hello"),)), T0)
    forwarding.go()
    forwarding.close()
    server.stop(None)

    assert [method for method, _, _ in taken] == [METRICS_METHOD, LOGS_METHOD]
    metrics = decode_metrics(taken[0][1])
    assert point_of_key(metrics.key(0)).name == "hw.gpu.utilization"
    assert [record.text for record in decode_logs(taken[1][1])] == ["hello"]
    assert {message for _, _, message in taken} == {"Basic bWU6Z2VoZWlt"}
