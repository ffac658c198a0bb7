"""Does `quiet-phases` tell an idle GPU from one whose job is busy on the host?

Runs the estimator over a recorded job on an H200 (`tests/data/h200-phases`), made after its
thresholds had been chosen on other runs. For each phase: the share of seconds called unexplained,
and the longest unexplained stretch, which is what a finding needs 300 seconds of.
"""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import Any

import polars as pl

from report import bar, finish, progress, quick
from steward.learn.estimators.quiet_phases import QuietPhases
from steward.model.cluster import GIB, Cluster, Gpu, GpuModel, Node
from steward.model.event import Observation
from steward.model.frame import ENTITY, T_S, Frame
from steward.model.identity import GpuId, JobId, NodeId, TenantId
from steward.model.job import Job, JobShape, JobState, Tenant
from steward.model.moment import Moment
from steward.observe.normalise import Normaliser

RECORDED = Path(__file__).parents[1] / "tests" / "data" / "h200-phases" / "phases.csv.gz"
IDLE = ("idle", "idle with a heartbeat", "idle with polling threads")
AT_WORK = (
    "train",
    "checkpoint",
    "load from disk",
    "decode on the host",
    "input-bound training",
    "compile",
)
MISSED = "hung in a spin loop"  # a core at full speed looks like work: known, and not claimed
SETTLE_S = 3.0  # the driver's utilisation and a rate over a second lag behind a change of phase
H200 = GpuModel(
    name="NVIDIA H200", generation="hopper", memory_bytes=141 * GIB, idle_watts=75, max_watts=700
)


def frames(recorded: pl.DataFrame) -> Frame:
    """Return the recording as a collector would give it: a row for the GPU and one for the job."""
    gpu = recorded.select(
        pl.col(T_S),
        pl.lit("n/gpu0").alias(ENTITY),
        pl.col("gpu.busy_share", "gpu.memory.used_bytes", "gpu.power_watts").cast(pl.Float64),
    )
    job = recorded.select(
        pl.col(T_S), pl.lit("job:1").alias(ENTITY), pl.col(r"^job\..*$").cast(pl.Float64)
    )
    return pl.concat([gpu, job], how="diagonal").sort(T_S)


def stage() -> Moment:
    """Return a node with one GPU that the recorded job holds."""
    moment = Moment()
    node, gpu, tenant = NodeId("n"), GpuId("n/gpu0"), TenantId("t")
    held = Gpu(id=gpu, node=node, index=0, model=H200)
    moment.fold(
        Observation(
            cluster=Cluster(id="recorded", nodes=(Node(id=node, gpus=(held,)),)),
            tenants=(Tenant(id=tenant),),
            jobs=(
                Job(
                    id=JobId("1"),
                    tenant=tenant,
                    shape=JobShape(gpus=1),
                    submit_s=0.0,
                    state=JobState.RUNNING,
                    gpus=(gpu,),
                ),
            ),
        )
    )
    return moment


def judge(recorded: pl.DataFrame) -> dict[str, dict[str, Any]]:
    """Return, for each phase, how much of it was called unexplained."""
    samples, _ = Normaliser(source="recorded", vocabulary="canonical").normalise(frames(recorded))
    moment, estimator = stage(), QuietPhases()
    labels = dict(zip(recorded[T_S], recorded["phase"], strict=True))
    seen: dict[str, list[bool]] = {}
    longest: dict[str, float] = {}
    phase, since_s = "", 0.0
    for (t_s,), rows in samples.group_by(T_S, maintain_order=True):
        assert isinstance(t_s, float)
        if labels[t_s] != phase:
            phase, since_s = labels[t_s], t_s
        moment.fold(Observation(frame=rows))
        view = moment.view(t_s)
        estimator.learn(view, ())
        idle_s = float(estimator.predict(view)[0].mid[0])
        if t_s - since_s >= SETTLE_S:
            seen.setdefault(phase, []).append(not isnan(idle_s))
            longest[phase] = max(longest.get(phase, 0.0), 0.0 if isnan(idle_s) else idle_s)
    return {
        name: {
            "seconds": len(flags),
            "unexplained_share": round(sum(flags) / len(flags), 4),
            "longest_unexplained_s": round(longest[name], 1),
        }
        for name, flags in seen.items()
    }


def main() -> None:
    """Demand that idle phases are seen as idle and others are not."""
    quick()
    results = judge(pl.read_csv(RECORDED))
    for name, figures in results.items():
        progress(f"{name:28} {figures}")
    idle = [results[name] for name in IDLE]
    found = sum(each["unexplained_share"] * each["seconds"] for each in idle)
    share = found / sum(each["seconds"] for each in idle)
    worst = max(results[name]["longest_unexplained_s"] for name in AT_WORK)
    finish(
        "quiet_phases",
        {"phases": results, "known_miss": MISSED},
        [
            bar("share of idle seconds that are seen as idle", round(share, 4), ">=", 0.95),
            bar("longest stretch of work taken for idleness in s", worst, "<", 30.0),
        ],
    )


if __name__ == "__main__":
    main()
