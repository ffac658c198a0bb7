"""Sharing of GPUs: Lucid's own simulator (ASPLOS'23) beside ours, and laws that need no peer.

Lucid's trace of users and models is not public, so that its own policy was never run by the peer
on a trace that is here: only its FIFO, SJF, SRTF and Tiresias can be set side by side.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from steward.decide.scheduling.colocation import COLOCATION_POLICIES
from steward.decide.scheduling.colocation.commons_packed import CommonsPacked
from steward.decide.scheduling.colocation.gandiva_slicing import GandivaSlicing
from steward.decide.scheduling.colocation.interface import ColocationPolicy
from steward.decide.scheduling.colocation.lucid import Lucid
from steward.model.machines import Machines, machines_of
from steward.model.replay import Replay
from steward.model.throughput import ThroughputTable
from steward.model.trace import Trace
from steward.sim.lab.colocation import replay_colocation
from steward.sim.lab.colocation.interference import interference_of
from steward.sim.lab.run import replay
from steward.sim.lab.settings import LabSettings
from steward.sim.traces import read_trace
from steward.sim.traces.locate import data_folder
from steward.sim.traces.throughputs import read_throughputs

__all__ = ["lines"]

FIFO_BOUND = 0.005
SAVING_S = 40.0  # what the peer adds for each stop of a job of up to 8 GPUs
LEVEL_GPU_S = 18_000.0
CLUSTERS = (("philly/103959", 24), ("philly/ee9e8c", 128))
CPU_LIMIT_S = 20.0
MEASURED_JOBS, MEASURED_GPUS = 2000, 128
ROUNDING_S = 1e-3
PACKED = LabSettings(placement="packed")


def lines(quick: bool) -> list[dict[str, Any]]:  # noqa: FBT001 - the assembly's own call
    """Return the peer's rows, what must always hold, and how the policies compare."""
    anchors = pl.read_csv(data_folder() / "anchors" / "peer_summary.csv.gz")
    peers = anchors.filter(pl.col("simulator") == "lucid-sim").iter_rows(named=True)
    found = [_beside_peer(peer) for peer in peers]
    table = read_throughputs(data_folder() / "gavel")
    for name, policy in COLOCATION_POLICIES.items():
        for trace, gpus in CLUSTERS[: 1 if quick else None]:
            run = replay_colocation(read_trace(trace), machines_of(gpus), policy(), PACKED)
            found += [_work(run, name, trace), _held(run, name, trace)]
        found.append(_as_measured(name, policy(), table))
    found += [_compared(trace, gpus) for trace, gpus in CLUSTERS[: 1 if quick else None]]
    return found if quick else [*found, _compared_measured(table), _speed()]


def _mean_s(run: Replay) -> float:
    return round(float(np.nanmean(run.end_s - run.trace.submit_s)), 1)


def _line(what: str, ours: object, peer: object, bar: str, **rest: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"what": what, "ours": ours, "peer": peer, "bar": bar, **rest}


def _beside_peer(peer: dict[str, Any]) -> dict[str, Any]:
    name = str(peer["trace"]).split()[0]
    trace = read_trace(name)
    trace = trace.rows(np.arange(peer["jobs"])) if peer["jobs"] < len(trace) else trace
    settings = LabSettings(
        placement="packed",
        checkpoint_s=SAVING_S,
        policy_options={"tiresias.thresholds_gpu_s": (LEVEL_GPU_S,)},
    )
    run = replay(trace, machines_of(24), peer["policy"], settings)
    ours, theirs = _mean_s(run), float(peer["avg_jct_s"])
    off = ours / theirs - 1.0
    must = peer["policy"] == "fifo"
    note = f"{off:+.2%}; stops {int(run.preemptions.sum())}, peer {peer['preemptions']}"
    if peer["policy"] == "tiresias":
        note += "; the peer looks once a minute only"
    return _line(
        f"{peer['policy']}, consolidated, {peer['trace']} {peer['cluster']}: mean JCT (s)",
        ours,
        theirs,
        f"{FIFO_BOUND:.1%}" if must else "shown",
        holds=abs(off) <= FIFO_BOUND if must else True,
        cpu_s=round(run.cpu_s, 3),
        peer_cpu_s=peer["user_cpu_s"],
        note=note,
    )


def _work(run: Replay, name: str, trace: str) -> dict[str, Any]:
    spans = run.segments
    done = np.bincount(
        spans.job, (spans.stop_s - spans.start_s) * spans.speed, minlength=len(run.trace)
    )
    off = float(np.abs(done - run.trace.duration_s - run.lost_s).max())
    return _line(
        f"{name}, {trace}: work done less work asked for and lost, largest over all jobs (s)",
        off,
        0.0,
        f"below {ROUNDING_S:g} s, and every job ends",
        holds=off < ROUNDING_S and not np.isnan(run.end_s).any(),
        cpu_s=round(run.cpu_s, 2),
        note=f"lost on the way: {run.lost_s.sum():,.0f} s",
    )


def _held(run: Replay, name: str, trace: str) -> dict[str, Any]:
    spans = run.segments
    t_s = np.concatenate([spans.stop_s, spans.start_s])
    held = np.concatenate([-spans.gpus, spans.gpus])
    most = float(np.cumsum(held[np.argsort(t_s, kind="stable")]).max())
    there = run.machines.total_gpus
    part = spans.gpus / run.trace.gpus[spans.job]
    return _line(
        f"{name}, {trace}: most GPUs held at once",
        round(most, 6),
        there,
        "never more than there are, never more than two jobs on one",
        holds=bool(most <= there + 1e-6 and ((part == 1.0) | (part == 0.5)).all()),
        cpu_s=round(run.cpu_s, 2),
        note=f"{_shared(run):.0%} of the GPU time is that of two jobs",
    )


def _shared(run: Replay) -> float:
    spans = run.segments
    gpu_s = (spans.stop_s - spans.start_s) * spans.gpus
    two = spans.gpus < run.trace.gpus[spans.job]
    return float(gpu_s[two].sum() / gpu_s.sum())


def _as_measured(name: str, policy: ColocationPolicy, table: ThroughputTable) -> dict[str, Any]:
    """Compare every span of a job that shares with the measured speed beside its partner."""
    trace = read_trace("gavel/msr/0").rows(np.arange(MEASURED_JOBS))
    machines = machines_of(MEASURED_GPUS, gpu_type="v100")
    run = replay_colocation(trace, machines, policy, LabSettings(), throughputs=table)
    speeds = interference_of(trace, machines, LabSettings(), table)
    slowest = min(
        (value for row in speeds.measured[0] for value in row if value > 0.0), default=1.0
    )
    known = {round(value, 9) for row in speeds.measured[0] for value in row} | {0.5, 1.0}
    strange = sum(round(value, 9) not in known for value in run.segments.speed.tolist())
    return _line(
        f"{name}, first {MEASURED_JOBS} jobs of gavel/msr/0, {MEASURED_GPUS} V100: "
        "spans at a speed that nobody measured",
        strange,
        0,
        "none: each is that of a measured pair, of a job alone, or half by turns",
        holds=strange == 0 and _shared(run) > 0.0,
        cpu_s=round(run.cpu_s, 2),
        note=f"slowest {run.segments.speed.min():.3f}, in the table {slowest:.3f}; "
        f"{_shared(run):.0%} of the GPU time is that of two jobs",
    )


def _means(
    trace: Trace, machines: Machines, table: ThroughputTable | None = None
) -> dict[str, float]:
    found = {}
    for name in ("fifo", "tiresias", "srtf"):
        found[name] = _mean_s(replay(trace, machines, name, PACKED))
    sharing: dict[str, ColocationPolicy] = {
        "lucid": Lucid(),
        "lucid without sharing": Lucid(few_jobs=1e9),
        "gandiva-slicing": GandivaSlicing(),
        "commons-packed": CommonsPacked(),
        "commons-packed without sharing": CommonsPacked(packs=False),
    }
    for name, policy in sharing.items():
        found[name] = _mean_s(replay_colocation(trace, machines, policy, PACKED, throughputs=table))
    return found


def _compared(trace: str, gpus: int) -> dict[str, Any]:
    return _line(
        f"{trace}, {gpus} GPUs, consolidated: mean JCT (s)",
        _means(read_trace(trace), machines_of(gpus)),
        None,
        "shown",
        holds=True,
        cpu_s=0.0,
        note="how jobs bear sharing is made up here: no trace of this cluster says it",
    )


def _compared_measured(table: ThroughputTable) -> dict[str, Any]:
    return _line(
        "gavel/msr/0, 480 V100, consolidated: mean JCT (s)",
        _means(read_trace("gavel/msr/0"), machines_of(480, gpu_type="v100"), table),
        None,
        "shown",
        holds=True,
        cpu_s=0.0,
        note="speeds of pairs as measured; no pair of several GPUs was",
    )


def _speed() -> dict[str, Any]:
    run = replay_colocation(read_trace("philly"), machines_of(480), Lucid(), LabSettings())
    return _line(
        "lucid, all of Philly, 480 GPUs: CPU seconds",
        round(run.cpu_s, 2),
        None,
        f"below {CPU_LIMIT_S:g} s",
        holds=run.cpu_s < CPU_LIMIT_S,
        cpu_s=round(run.cpu_s, 2),
        note=f"{len(run.trace)} jobs, {run.decisions} decisions, mean JCT {_mean_s(run)} s",
    )


if __name__ == "__main__":
    for entry in lines(quick=False):
        print("ok  " if entry["holds"] else "FAIL", entry)
