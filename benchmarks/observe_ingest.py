"""How many samples a second one core takes in, beside a real Prometheus doing the same.

The same remote write requests (500 samples each, as Prometheus sends them) go to steward's own
service and to Prometheus, both on one core, by turns, while the sender has the other. Both are
warm: the series are known. `per_core_s` divides by all processor time of the server until it is
idle again after the last request, so that what it puts off is paid for (our tables and Parquet
files are made by the loop); `per_wall_s` is how fast requests were answered. steward answers when
the body is on disk and synced (several requests share one fsync); Prometheus 2.42 when it is in a
write-ahead log that is not synced. OTLP goes to steward alone, about 200 points in a request as
one node has them: Prometheus 2.42 does not take it. A thousand agents bring real parcels. At the
end the files are read: what was acknowledged has to be there, all of it. Last come the questions
to a day of 1,000 GPUs, as in `observe_query.py`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl
import psutil

import observe_query
from report import bar, finish, progress, quick
from steward.clients.wire.otlp import OutgoingSeries, encode_metrics
from steward.clients.wire.remote_write import encode_write
from steward.model.event import Observation
from steward.model.metrics import METRICS as METRIC_TABLE
from steward.model.metrics import aliases_from
from steward.observe.agent.parcel import ParcelHeader, pack_parcel
from steward.store.telemetry import Telemetry
from steward.store.tokens import Role, Tokens

HERE = Path(__file__).parent
PER_REQUEST = 500
NODES, GPUS = 125, 8  # a thousand GPUs
# Levels only, each by one name: then exactly as many values lie in the files as were sent.
_BY_METRIC = {
    metric.name: name
    for name, (metric, _) in reversed([*aliases_from("dcgm").items()])  # the oldest name of each
    if not metric.rate
}
NAMES = sorted(_BY_METRIC.values())[:25]
OURS = [each.name for each in METRIC_TABLE if each.of == "gpu" and not each.rate][:25]
SENDERS = 4
AGENTS = 1000
SETTLE_S, IDLE_S, LONGEST_S = 5.0, 4.0, 120.0
IDLE_SHARE = 0.1  # of a core: the loop turns every two seconds even when nothing comes
WRITE = {"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf"}
OTLP = {"Content-Type": "application/x-protobuf"}
SERVER_CORE, SENDER_CORE = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A server that takes requests, and the process whose time is measured."""

    port: int
    pid: int
    path: str
    headers: dict[str, str]


# -- what is sent ------------------------------------------------------------------------------


def _labels() -> list[dict[str, str]]:
    return [
        {
            "__name__": name,
            "Hostname": f"n{node:03d}",
            "UUID": f"GPU-{node:04d}{gpu}-d9cf-fef3-62e9-d92044ab6e52",
            "device": f"nvidia{gpu}",
            "gpu": str(gpu),
            "instance": f"n{node:03d}:9400",
            "job": "dcgm",
            "modelName": "NVIDIA H100 80GB HBM3",
        }
        for node in range(NODES)
        for gpu in range(GPUS)
        for name in NAMES
    ]


def write_requests(rounds: int, start_ms: int) -> list[bytes]:
    """Encode `rounds` scrapes of all series, 15 s apart."""
    labels, dice = _labels(), np.random.default_rng(1)
    bodies = []
    for turn in range(rounds):
        t_ms = [start_ms + 15_000 * turn]
        values = np.round(dice.random(len(labels)) * 100, 2)
        for at in range(0, len(labels), PER_REQUEST):
            part = zip(labels[at : at + PER_REQUEST], values[at : at + PER_REQUEST], strict=True)
            bodies.append(encode_write([(each, t_ms, [float(value)]) for each, value in part]))
    return bodies


def otlp_requests(rounds: int, start_ms: int) -> list[bytes]:
    """Encode the same numbers as OTLP, a request per node."""
    bodies = []
    for turn in range(rounds):
        t_ns = [(start_ms + 15_000 * turn) * 10**6]
        for node in range(NODES):
            series = [
                OutgoingSeries(
                    name=name,
                    unit="1",
                    attributes={"gpu": str(gpu), "UUID": f"GPU-{node:04d}{gpu}-d9cf-fef3"},
                    counter=False,
                    t_ns=t_ns,
                    values=[float(gpu + turn)],
                )
                for name in NAMES
                for gpu in range(GPUS)
            ]
            bodies.append(encode_metrics({"host.name": f"o{node:03d}"}, series))
    return bodies


# -- who takes it ------------------------------------------------------------------------------


@contextmanager
def prometheus(folder: Path) -> Iterator[Target | None]:
    """Run Prometheus on one core, or say that there is none."""
    program = shutil.which("prometheus")
    if program is None:
        progress("prometheus is not installed (scripts/install-real-parts): no comparison")
        yield None
        return
    (folder / "prometheus.yml").write_text("global: {scrape_interval: 1h}\n")
    port = _free_port()
    command = [
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--web.enable-remote-write-receiver",
    ]
    with _pinned(command, {"GOMAXPROCS": "1"}) as pid:
        _wait_for(port, "/-/ready")
        yield Target(port=port, pid=pid, path="/api/v1/write", headers=WRITE)


@contextmanager
def steward(folder: Path) -> Iterator[Target]:
    """Run `steward up` on one core."""
    config = folder / "steward.toml"
    config.write_text(
        "[observe]\ncollectors = []\n[loop]\nevery_s = 2.0\n[store]\nflush_every_s = 2.0\n"
        "[service]\nrequests_per_minute = 1000000\n"
    )
    port = _free_port()
    command = [
        *(sys.executable, "-c", "from steward.cli import main; main()", "up", "--no-browser"),
        *("--config", str(config), "--data", str(folder / "store"), "--port", str(port)),
    ]
    token = Tokens(folder / "store" / "tokens.json").make("benchmark", Role.AGENT, node="*")
    with _pinned(command, {"POLARS_MAX_THREADS": "1"}) as pid:
        _wait_for(port, "/readyz")
        headers = WRITE | {"Authorization": f"Bearer {token}"}
        yield Target(port=port, pid=pid, path="/api/v1/write", headers=headers)


@contextmanager
def _pinned(command: Sequence[str], env: dict[str, str]) -> Iterator[int]:
    started = subprocess.Popen(
        ["taskset", "-c", str(SERVER_CORE), *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **env},
    )
    try:
        yield started.pid
    finally:
        started.terminate()
        started.wait(30)


def _free_port() -> int:
    import socket  # noqa: PLC0415 - for this alone

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, path: str) -> None:
    end_s = time.monotonic() + 120
    while time.monotonic() < end_s:
        try:
            connection = HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise TimeoutError(path)


# -- how fast ----------------------------------------------------------------------------------


def send(target: Target, bodies: Sequence[bytes], samples: int) -> dict[str, float]:
    """Send all bodies over a few connections; measure by the server's own processor time."""
    waiting, lock = iter(bodies), threading.Lock()
    took_s: list[float] = []
    refused: list[int] = []

    def work() -> None:
        connection = HTTPConnection("127.0.0.1", target.port, timeout=60)
        while True:
            with lock:
                body = next(waiting, None)
            if body is None:
                connection.close()
                return
            began_s = time.perf_counter()
            connection.request("POST", target.path, body, target.headers)
            answer = connection.getresponse()
            answer.read()
            took_s.append(time.perf_counter() - began_s)
            if answer.status not in (200, 204):
                refused.append(answer.status)

    process = psutil.Process(target.pid)
    before = process.cpu_times()
    began_s = time.perf_counter()
    threads = [threading.Thread(target=work) for _ in range(SENDERS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    wall_s = time.perf_counter() - began_s
    until_idle(target.pid)  # what was put off counts as well: tables, rates, files
    after = process.cpu_times()
    cpu_s = after.user + after.system - before.user - before.system
    return {
        "samples": samples,
        "refused": len(refused),
        "per_core_s": round(samples / cpu_s),
        "per_wall_s": round(samples / wall_s),
        "p50_ms": round(float(np.percentile(took_s, 50)) * 1e3, 2),
        "p99_ms": round(float(np.percentile(took_s, 99)) * 1e3, 2),
    }


def until_idle(pid: int) -> None:
    """Wait until a server has nothing left to do: a fixed time would leave work uncounted."""
    process, end_s = psutil.Process(pid), time.monotonic() + LONGEST_S
    time.sleep(SETTLE_S)
    while time.monotonic() < end_s:
        before = process.cpu_times()
        time.sleep(IDLE_S)
        after = process.cpu_times()
        used_s = after.user + after.system - before.user - before.system
        if used_s < IDLE_SHARE * IDLE_S:
            return
    raise TimeoutError("the server is still busy: its figures would be too good")


def _middle(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: round(median(each[name] for each in rounds), 2) for name in rounds[0]}


def measure(folder: Path, *, rounds: int, scrapes: int) -> dict[str, Any]:
    """Send the same to both by turns, so that a busy neighbour slows both."""
    start_ms = time.time_ns() // 10**6 - 15_000 * scrapes * (rounds + 1)
    per_scrape = NODES * GPUS * len(NAMES)
    found: dict[str, list[dict[str, float]]] = {"steward": [], "prometheus": [], "otlp": []}
    (folder / "s").mkdir()
    (folder / "p").mkdir()
    with steward(folder / "s") as ours, prometheus(folder / "p") as theirs:
        otlp = Target(port=ours.port, pid=ours.pid, path="/v1/metrics", headers=OTLP)
        until_idle(ours.pid)  # it may compile when it starts
        for turn in range(rounds + 1):
            at_ms = start_ms + 15_000 * scrapes * turn
            bodies, points = write_requests(scrapes, at_ms), otlp_requests(scrapes, at_ms)
            for name, target, sent in (
                ("steward", ours, bodies),
                ("prometheus", theirs, bodies),
                ("otlp", otlp, points),
            ):
                if target is None:
                    continue
                done = send(target, sent, per_scrape * scrapes)
                progress(f"{name}: {json.dumps(done)}")
                if turn:  # the first turn makes the series known
                    found[name].append(done)
    results = {name: _middle(each) for name, each in found.items() if each}
    total = 2 * per_scrape * scrapes * (rounds + 1)  # by remote write and by OTLP
    results["stored"] = {"sent": total, "share": stored(folder / "s" / "store") / total}
    return results


def stored(folder: Path) -> int:
    """Count the values that lie in the files of a store."""
    telemetry = Telemetry(folder / "telemetry")
    total = 0
    for hour in telemetry.table.partitions.between(0.0, 1e12):
        frame = telemetry.read(from_s=hour * 3600.0, to_s=hour * 3600.0 + 3599.999)
        total += sum(frame[name].count() for name in frame.columns[2:])
    telemetry.close()
    return total


# -- agents ------------------------------------------------------------------------------------


def parcels(turn: int, *, agents: int, start_s: float) -> list[bytes]:
    """Make a real parcel per agent: ten seconds of a node with eight GPUs."""
    dice = np.random.default_rng(turn)
    times = np.repeat(start_s + 10.0 * turn + np.arange(10.0), GPUS)
    bodies = []
    for agent in range(agents):
        node = f"n{agent:04d}"
        frame = pl.DataFrame(
            {
                "t_s": times,
                "entity": [f"{node}/gpu{gpu}" for gpu in range(GPUS)] * 10,
                **{name: np.round(dice.random(10 * GPUS), 3) for name in OURS},
            }
        )
        label = ParcelHeader(
            agent=node, run="r", sequence=turn + 1, node=node, packed_s=time.time()
        )
        bodies.append(pack_parcel(label, Observation(frames=(frame,))))
    return bodies


def measure_agents(folder: Path, *, turns: int, agents: int) -> dict[str, float]:
    """Let that many agents bring a parcel each, again and again."""
    folder.mkdir()
    start_s = time.time() - 60.0 * (turns + 1)
    done = []
    with steward(folder) as ours:
        target = Target(port=ours.port, pid=ours.pid, path="/api/v1/agents/parcels", headers={})
        until_idle(ours.pid)
        for turn in range(turns + 1):
            bodies = parcels(turn, agents=agents, start_s=start_s)
            done.append(send(target, bodies, agents * 10 * GPUS * len(OURS)))
            progress(f"agents: {json.dumps(done[-1])}")
    total = agents * 10 * GPUS * len(OURS) * (turns + 1)
    spread = [each["per_core_s"] for each in done[1:]]
    return _middle(done[1:]) | {
        "agents": agents,
        "least_per_core_s": min(spread),
        "most_per_core_s": max(spread),
        "stored_share": stored(folder / "store") / total,
    }


def main() -> None:
    """Measure and compare."""
    short = quick()
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {SENDER_CORE})
    with tempfile.TemporaryDirectory(prefix="steward-ingest-") as name:
        results = measure(Path(name), rounds=1 if short else 5, scrapes=4 if short else 16)
        agents = measure_agents(
            Path(name) / "agents", turns=1 if short else 5, agents=200 if short else AGENTS
        )
    os.sched_setaffinity(0, cores)
    ours, otlp = results["steward"], results["otlp"]
    bars = [
        bar("remote_write_samples_per_core_s", ours["per_core_s"], ">=", 100_000),
        bar("otlp_samples_per_core_s", otlp["per_core_s"], ">=", 100_000),
        bar("refused", ours["refused"] + otlp["refused"], "==", 0),
        bar("stored_share", results["stored"]["share"], "==", 1.0),
        bar("remote_write_p99_ms", ours["p99_ms"], "<", 500.0),
    ]
    if "prometheus" in results:
        ratio = ours["per_core_s"] / results["prometheus"]["per_core_s"]
        results["ratio_to_prometheus"] = {"per_core": round(ratio, 3)}
        bars.append(bar("ratio_to_prometheus", ratio, ">=", 1.0))
    results["agents"] = agents
    bars.append(bar("agents_refused", agents["refused"], "==", 0))
    bars.append(bar("agents_stored_share", agents["stored_share"], "==", 1.0))
    bars.append(bar("agents_samples_per_core_s", agents["per_core_s"], ">=", 200_000))
    results["durability"] = {
        "steward": "answered after fsync (group commit)",
        "prometheus": "answered after a write-ahead log that is not synced",
    }
    results["query"] = observe_query.measure(hours=2 if short else 24, every_s=10)
    bars += observe_query.bars_of(results["query"])
    finish("observe_ingest", results, bars)


if __name__ == "__main__":
    main()
