"""A real Prometheus scrapes steward, writes to it, and is read by it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import httpx
import pytest

from beds.prometheus import Prometheus, Upstream, agent, prometheus, upstream
from patience import LONG_S, free_port, until
from steward.clients.prometheus import PrometheusServer
from steward.clients.remote_writer import RemoteWriter
from steward.clients.web import Endpoint
from steward.clients.wire.remote_write import encode_write
from steward.observe.collectors.prometheus import Prometheus as Source
from wire_messages import RECORDED

pytestmark = pytest.mark.real

PAUSE = 8  # turns of the loop
PUSHED = "steward_host_cpu_user_cores{job='steward', node='127.0.0.1'}"


def test_prometheus_scrapes_exporters_writes_to_steward_and_scrapes_it_back(tmp_path: Path) -> None:
    with (
        upstream(tmp_path / "steward", exposition=(RECORDED / "exposition.txt").read_bytes()) as up,
        prometheus(
            tmp_path / "prometheus",
            scrape={"exporters": up.exporter, "steward": up.steward},
            write_to=f"http://{up.steward}/api/v1/write",
            token=up.agent,
        ) as bed,
    ):
        server = PrometheusServer(Endpoint(url=bed.address, timeout_s=LONG_S))
        of_gpus = "steward_gpu_busy_share{job='steward',gpu!=''}"  # CPU slots have it as well
        busy = until(lambda: server.query(of_gpus))
        cores = until(lambda: server.query(PUSHED))
        failed = server.query("prometheus_remote_storage_samples_failed_total")

    assert {(each.labels["node"], each.labels["gpu"], each.values[0]) for each in busy} == {
        ("n01", "0", 0.97),
        ("n01", "1", 0.0),
    }
    assert [each.labels["node"] for each in cores] == ["127.0.0.1"]
    assert all(value == 0.0 for each in failed for value in each.values)


def written(bed: Prometheus, count: int) -> float:
    """Write some samples, one second apart until now; return when they begin."""
    begin_s = round(time.time()) - float(count)
    labels = {"__name__": "steward_gpu_busy_share", "node": "n01", "gpu": "3"}
    times = [int((begin_s + t) * 1000) for t in range(count)]
    writer = RemoteWriter(Endpoint(url=f"{bed.address}/api/v1/write", timeout_s=LONG_S))
    writer.send(encode_write([(labels, times, [t / 100 for t in range(count)])]))
    return begin_s


def test_steward_writes_to_prometheus_and_reads_it_by_queries(
    tmp_path: Path,
) -> None:
    with prometheus(tmp_path, scrape={"self": f"127.0.0.1:{free_port()}"}) as bed:
        begin_s = written(bed, 60)
        server = PrometheusServer(Endpoint(url=bed.address, timeout_s=LONG_S))
        (raw,) = server.query("steward_gpu_busy_share[101s]", at_s=begin_s + 100)
        ranged = server.query_range(
            "steward_gpu_busy_share", from_s=begin_s, to_s=begin_s + 59, step_s=1.0
        )
        source = Source(
            server=bed.address, queries={"gpu.busy_share": "steward_gpu_busy_share * 1"}
        )
        seen = source.collect(begin_s + 50)
        version = server.version()

    assert version.startswith("2.")
    assert raw.labels["gpu"] == "3"
    assert raw.values == tuple(t / 100 for t in range(60))
    assert raw.t_s == pytest.approx([begin_s + t for t in range(60)])
    assert ranged[0].values == tuple(t / 100 for t in range(60))
    assert seen.tables[0].rows() == [(begin_s + 50, "n01/gpu3", 0.5)]


def forward(bed: Prometheus) -> str:
    return f"[forward.site]\nurl = '{bed.address}/api/v1/write'\nmetrics = ['host.*']\n"


def exposed(up: Upstream, name: str) -> list[str]:
    """Return the lines of one series of a steward's own metrics."""
    address = f"http://{up.steward}/metrics"
    text = httpx.get(address, headers=up.headers, timeout=LONG_S).text
    return [each for each in text.splitlines() if each.startswith(name)]


def turns(up: Upstream) -> float:
    (line,) = exposed(up, "steward_turns_total")
    return float(line.split()[1])


def refused(up: Upstream) -> dict[str, float]:
    """Return what a steward says that it could not forward, by why."""
    lines = exposed(up, "steward_forward_dropped_samples_total{")
    return {each.split('"')[1]: float(each.rsplit(" ", 1)[1]) for each in lines}


def test_a_live_loop_and_an_agent_forward_all_the_time_even_past_a_pause(tmp_path: Path) -> None:
    node = "node!='far'"
    with (
        prometheus(tmp_path / "prometheus", scrape={"self": f"127.0.0.1:{free_port()}"}) as bed,
        prometheus(tmp_path / "second", scrape={"self": f"127.0.0.1:{free_port()}"}) as second,
        upstream(tmp_path / "steward", settings=forward(bed)) as up,
    ):
        server = PrometheusServer(Endpoint(url=bed.address, timeout_s=LONG_S))
        own = f"steward_host_memory_used_bytes{{{node}}}"
        until(lambda: server.query(f"count_over_time({own}[5m]) > 3"))
        os.kill(bed.pid, signal.SIGSTOP)  # it hangs: nothing is refused, nothing is answered
        stopped_s, last = time.time(), turns(up) + PAUSE
        with agent(
            tmp_path / "agent",
            server=up,
            settings=f"[agent]\nsend_every_s = 1.0\n{forward(second)}",
        ):
            until(lambda: turns(up) >= last)
            continued_s = time.time()
            os.kill(bed.pid, signal.SIGCONT)
            until(lambda: server.query("steward_host_memory_used_bytes{node='far'}"))
            far = PrometheusServer(Endpoint(url=second.address, timeout_s=LONG_S))
            direct = until(lambda: far.query("steward_host_memory_used_bytes{node='far'}"))
        since = f"{own} and (timestamp({own}) > {continued_s})"
        until(lambda: server.query(since), why="a sample that was taken after the pause")
        (got,) = server.query(f"{own}[15m]", at_s=time.time())
        dropped = refused(up)

    meanwhile = [t_s for t_s in got.t_s if stopped_s < t_s < continued_s]
    assert len(meanwhile) >= PAUSE / 2, "samples of the pause are missing"
    assert direct[0].labels["node"] == "far"
    assert dropped == {"full": 0.0, "refused": 0.0, "late": 0.0, "closed": 0.0}
