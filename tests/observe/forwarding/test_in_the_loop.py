"""The loop and the agent forward all observations, and report the status."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

from observe.agent.test_agent import Scene
from observe.forwarding.receivers import in_order, look, receiver, target
from patience import LONG_S, until
from service.bed import START_S, build_bed
from steward.clock import ManualClock
from steward.config import draft_settings
from steward.config.assemble import assemble
from steward.observe.forwarding import Forwarder
from steward.observe.forwarding.forward_queue import ForwardQueue
from tiny_world import TinyWorld, tiny_loop, turn_until


def test_the_loop_forwards_each_turn_and_sends_the_rest_when_it_ends(tmp_path: Path) -> None:
    clock = ManualClock(START_S)
    loop = tiny_loop(tmp_path, TinyWorld(), clock)
    with receiver() as site:
        loop.forwarding = Forwarder([target(site.url, metrics=("gpu.busy_share",))])
        turn_until(loop, clock, START_S + 100)
        loop.close()

    points = site.points()
    assert in_order(points)
    assert sorted(t_s for name, t_s, _ in points if name.endswith("n1/0")) == [
        10.0 * turn for turn in range(10)
    ]


def test_what_is_dropped_is_in_the_journal_once_and_the_loop_continues(tmp_path: Path) -> None:
    clock = ManualClock(START_S)
    loop = tiny_loop(tmp_path, TinyWorld(), clock)
    with receiver() as site:
        site.status = 404
        loop.forwarding = Forwarder([target(site.url)])
        for _ in range(5):
            queried = site.requests
            loop.turn()
            until(lambda n=queried: site.requests > n)
            clock.set(clock.now_s() + 10)
        loop.turn()
        loop.close()
        faults = loop.status.faults

    loop = tiny_loop(tmp_path, TinyWorld(), clock)
    events = [entry.value for entry in loop.journal.read(kinds=("event",))]
    loop.close()
    result = [each for each in events if each.kind == "telemetry.forward-dropped"]  # type: ignore[union-attr]
    assert len(result) == 1
    assert "answers 404" in result[0].text  # type: ignore[union-attr]
    assert faults == ()


def test_metrics_count_what_was_forwarded_and_dropped(tmp_path: Path) -> None:
    bed = build_bed(tmp_path)
    before = bed.client.get("/metrics").text
    with receiver() as site:
        bed.loop.forwarding = Forwarder([target(site.url, metrics=("gpu.busy_share",))])
        bed.turn(30.0)
        bed.loop.forwarding.close()
        text = bed.client.get("/metrics").text

    assert "steward_forward" not in before
    assert 'steward_forwarded_samples_total{target="site"} 6.0' in text
    assert 'steward_forward_dropped_samples_total{reason="full",target="site"} 0.0' in text
    assert 'steward_forward_waiting_samples{target="site"} 0.0' in text


def test_only_a_live_loop_forwards(tmp_path: Path) -> None:
    environment = {
        "STEWARD_STORE__FOLDER": str(tmp_path),
        "STEWARD_FORWARD__SITE__URL": "http://127.0.0.1:9/api/v1/write",
        "STEWARD_OBSERVE__COLLECTORS": "host",
    }
    settings = draft_settings(None, environment).settled()
    made_up = assemble(settings, clock=ManualClock(START_S), collectors=[TinyWorld()])
    made_up.close()
    live = assemble(settings, clock=ManualClock(START_S))
    live.close()

    assert made_up.forwarding is None
    assert live.forwarding is not None
    assert [each.name for each in live.forwarding.status] == ["site"]


def test_an_agent_forwards_and_its_status_this_is_reported(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    with receiver() as site:
        scene.agent._forwarding = Forwarder([target(site.url)])
        scene.run(lambda: len(site.points()) >= 3)
    scene.spool.close()

    status = json.loads((tmp_path / "status.json").read_text())["forwarding"][0]
    assert in_order(site.points())
    assert status["sent_samples"] == len(site.points())


def test_an_agent_whose_receiver_hangs_still_ends_in_time(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    with receiver() as site:
        site.slow_s = 200.0
        scene.agent._forwarding = Forwarder([target(site.url)])
        began_s = time.monotonic()
        scene.run(scene.got(2))
        took_s = time.monotonic() - began_s
    scene.spool.close()

    assert took_s < 100.0


def test_status_may_be_requested_while_looks_are_taken() -> None:
    with receiver() as site:
        outlet = ForwardQueue(target(site.url))
        stop, seen = threading.Event(), []

        def ask() -> None:
            while not stop.wait(0.001):
                seen.append(outlet.status.sent_samples)

        asking = threading.Thread(target=ask)
        asking.start()
        for turn in range(50):
            outlet.take(look(float(turn)))
            outlet.go()
        until(lambda: outlet.status.sent_samples == 50)
        stop.set()
        asking.join()
        outlet.close(time.monotonic() + LONG_S)

    assert seen == sorted(seen)


def loaded(code: str) -> set[str]:
    """Return which of the heavy packages a program has loaded at its end."""
    heavy = "('numba', 'grpc', 'opentelemetry', 'google.protobuf', 'steward.observe.forwarding')"
    code += f"\nimport sys; print(*(each for each in {heavy} if each in sys.modules))"
    message = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(message.stdout.split())


def test_an_agent_loads_only_what_its_receivers_need() -> None:
    begin = """
import steward.config
from steward.cli.observe.agent import _forwarding
from steward.observe.agent.agent import Agent
from steward.observe.collectors import COLLECTORS
settings = steward.config.draft_settings(None, {ENV}).settled()
forwarding = _forwarding(settings)
"""
    url = "'STEWARD_FORWARD__A__URL': 'http://127.0.0.1:9'"
    otlp = "'STEWARD_FORWARD__A__FORMAT': 'otlp-%s'"

    forwarding = "steward.observe.forwarding"
    protobuf = {"opentelemetry", "google.protobuf"}
    assert loaded(begin.replace("ENV", "")) == set()
    assert loaded(begin.replace("ENV", url)) == {forwarding}
    assert loaded(begin.replace("ENV", f"{url}, {otlp % 'http'}")) == {forwarding, *protobuf}
    assert loaded(begin.replace("ENV", f"{url}, {otlp % 'grpc'}")) >= {"grpc"}
