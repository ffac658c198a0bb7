"""How fast is the lab, beside the peers' own simulators (CPU seconds that the notes measured)?

Compiling happens once per machine, before the clocks: it is shown on its own line.
"""

from __future__ import annotations

import resource
import time
from typing import Any

import numpy as np

from agreement.elastic import sia_machines
from report import bar, finish, progress, quick
from steward.model.machines import machines_of
from steward.model.replay import Replay
from steward.model.trace import Trace, trace_of
from steward.sim.lab.generate import fit, generate
from steward.sim.lab.packing import pack
from steward.sim.lab.run import FAMILIES, replay
from steward.sim.lab.settings import LabSettings
from steward.sim.traces import read_nodes, read_pods, read_trace
from steward.sim.traces.locate import data_folder

RIGID = (*FAMILIES["one order"], *FAMILIES["tenants"])
# CPU seconds of the peers on 82,247 jobs (our own plain Python), and on one virtual cluster.
PLAIN_PYTHON_S = {"fifo": 37.0, "fit-first": 25.0, "srtf": 14.0, "srsf": 16.0}
TIRESIAS_SIM_S = {"fifo": 61.5, "srtf": 38.59}  # philly/6c71a0: 9,953 jobs on 64 GPUs
GROWTH = ((10_000, 100), (100_000, 1_000), (1_000_000, 10_000))
REPEATS = 3
LARGE = "philly, 82,247 jobs, 480 GPUs"
SMALL = "philly/6c71a0, 9,953 jobs, 64 GPUs"
ELASTIC = "elastic, 160 jobs, 64 GPUs"


def main() -> None:
    """Time every rigid policy, elastic runs, packing, and growth."""
    short = quick()
    settings = LabSettings()
    began = time.process_time()
    tiny = trace_of("tiny", submit_s=[0.0], duration_s=[1.0], gpus=[1.0])
    replay(tiny, machines_of(1), "fifo", settings)
    results: dict[str, Any] = {"compile_or_load_cpu_s": round(time.process_time() - began, 2)}
    philly, ten_thousand = read_trace("philly"), read_trace("philly/6c71a0")
    results[LARGE] = _policies(philly, 480, PLAIN_PYTHON_S)
    results[SMALL] = _policies(ten_thousand, 64, TIRESIAS_SIM_S)
    results[ELASTIC] = _elastic()
    results["packing"] = _packing()
    results["growth"] = _growth(philly, GROWTH[: 2 if short else None])
    finish("lab_speed", results, _bars(results))


def _bars(results: dict[str, Any]) -> list[dict[str, Any]]:
    large, small = results[LARGE], results[SMALL]
    elastic, packing = results[ELASTIC], results["packing"]
    return [
        bar("slowest rigid policy on all of Philly (CPU s)", _slowest(large), "<", 5.0),
        bar("commons on all of Philly (CPU s)", large["commons"]["cpu_s"], "<", 5.0),
        bar("slowest rigid policy on 9,953 jobs (CPU s)", _slowest(small), "<", 0.2),
        bar("pollux, 160 jobs (CPU s)", elastic["pollux"]["cpu_s"], "<", 20.0),
        bar("sia, 160 jobs (CPU s)", elastic["sia"]["cpu_s"], "<", 20.0),
        bar("fgd, 8,152 pods, 1,213 nodes (CPU s)", packing["fgd"]["cpu_s"], "<", 5.0),
    ]


def _slowest(rows: dict[str, Any]) -> float:
    return float(max(row["cpu_s"] for row in rows.values()))


def _policies(trace: Trace, gpus: int, peers: dict[str, float]) -> dict[str, Any]:
    rows = {}
    for policy in RIGID:
        runs = [replay(trace, machines_of(gpus), policy, LabSettings()) for _ in range(REPEATS)]
        best = min(run.cpu_s for run in runs)  # others share this machine: the least disturbed
        rows[policy] = _row(runs[0], best, peers.get(policy))
        progress(f"{trace.name} {policy}: {best:.2f} s")
    return rows


def _row(run: Replay, cpu_s: float, peer_s: float | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "cpu_s": round(cpu_s, 3),
        "looks": run.decisions,
        "jobs_per_s": round(len(run.trace) / cpu_s),
        "peak_memory_mib": _memory_mib(),
    }
    if peer_s is not None:
        row |= {"peer_cpu_s": peer_s, "times_faster": round(peer_s / cpu_s)}
    return row


def _memory_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _elastic() -> dict[str, Any]:
    rows = {}
    for policy, trace, folder, machines, peer_s in (
        ("pollux", "pollux/1.0/6", "pollux", machines_of(64, gpus_per_node=4), 2038.0),
        ("optimus", "pollux/1.0/6", "pollux", machines_of(64, gpus_per_node=4), 79.0),
        ("sia", "sia/philly/1", "sia", sia_machines(), 493.0),
    ):
        settings = LabSettings(profiles=data_folder() / folder)
        runs = [replay(read_trace(trace), machines, policy, settings) for _ in range(2)]
        rows[policy] = _row(runs[-1], runs[-1].cpu_s, peer_s)  # the first compiles
        progress(f"{policy}: {runs[-1].cpu_s:.2f} s")
    return rows


def _packing() -> dict[str, Any]:
    pods, machines = read_pods("alibaba_openb/default"), read_nodes("alibaba_openb")
    pack(pods, machines, "fgd", load=0.01)
    began = time.process_time()
    pack(pods, machines, "fgd", seed=42)
    cpu_s = time.process_time() - began
    row = {"cpu_s": round(cpu_s, 3), "peer_cpu_s": 600.0, "times_faster": round(600 / cpu_s)}
    return {"fgd": row}


def _growth(philly: Trace, sizes: tuple[tuple[int, int], ...]) -> list[dict[str, Any]]:
    """Scale the trace up at equal load: ten times the jobs on ten times the GPUs."""
    model = fit(philly)
    rows = []
    for jobs, gpus in sizes:
        trace = generate(model, jobs=jobs, seed=1)
        span_s = float(trace.submit_s[-1] - trace.submit_s[0])
        stretch = trace.gpu_seconds / (0.9 * gpus * span_s)
        scaled = trace_of(
            f"{jobs} synthetic jobs",
            submit_s=trace.submit_s * stretch,
            duration_s=trace.duration_s,
            gpus=np.minimum(trace.gpus, gpus // 2),
            tenant=[trace.tenants[code] if code >= 0 else "" for code in trace.tenant],
            synthetic=True,
        )
        for policy in ("fifo", "tiresias", "commons"):
            run = replay(scaled, machines_of(gpus), policy, LabSettings())
            row = {"policy": policy, "jobs": jobs, "gpus": gpus, "cpu_s": round(run.cpu_s, 2)}
            row |= {"us_per_job": round(1e6 * run.cpu_s / jobs, 1), "memory_mib": _memory_mib()}
            rows.append(row)
            progress(f"growth: {rows[-1]}")
    return rows


if __name__ == "__main__":
    main()
