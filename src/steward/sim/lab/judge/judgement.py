"""Puts the measures of one replay together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.model.replay import Replay
from steward.sim.lab.judge import integrals as rows
from steward.sim.lab.judge.energy import HOUR_S, bill_of
from steward.sim.lab.judge.integrals import Integrals, walk
from steward.sim.lab.judge.job_times import JobTimes, job_times, ratio
from steward.sim.lab.judge.measures import Measures, Timeline
from steward.sim.lab.judge.tenants import tenant_measures
from steward.sim.lab.judge.timeline_events import event_tape, horizon

__all__ = ["judge", "judged_jobs"]

Floats = NDArray[np.float64]


def judge(replay: Replay) -> Measures:
    """Compute every measure of a replay."""
    return judged_jobs(replay)[0]


def judged_jobs(replay: Replay) -> tuple[Measures, JobTimes]:
    """Compute every measure, and how each job fared."""
    from_s, to_s = horizon(replay)
    trace = replay.trace
    tape = event_tape(replay)
    last_submit_s = float(trace.submit_s[-1]) if len(trace) else 0.0
    walked = walk(tape, from_s=from_s, to_s=to_s, last_submit_s=last_submit_s)
    there_gpu_s = float(walked.bucket[rows.THERE].sum())
    times = job_times(replay, capacity_gpus=there_gpu_s / max(to_s - from_s, 1e-9))
    measures = Measures(
        jobs=len(trace),
        finished=int((~np.isnan(replay.end_s)).sum()),
        unfinished=int(np.isnan(replay.end_s).sum()),
        makespan_s=to_s - from_s,
        preemptions=int(replay.preemptions.sum()),
        decisions=replay.decisions,
        cpu_s=replay.cpu_s,
        deadlines_met_share=_deadlines_met(replay, times.jct_s),
        fairness_compliance=_compliance(walked, rows.SHORT),
        share_compliance=_compliance(walked, rows.SHARE_SHORT),
        tenants=tenant_measures(replay, tape, times, walked),
        timeline=_timeline(walked),
        **_of_jobs(times),
        **_of_use(replay, times, walked),
    )
    return measures, times


def _of_jobs(times: JobTimes) -> dict[str, float]:
    rho = times.rho[~np.isnan(times.rho)]
    return {
        "jct_mean_s": _mean(times.jct_s),
        "jct_p50_s": _quantile(times.jct_s, 0.5),
        "jct_p99_s": _quantile(times.jct_s, 0.99),
        "wait_mean_s": _mean(times.wait_s),
        "wait_p50_s": _quantile(times.wait_s, 0.5),
        "wait_p99_s": _quantile(times.wait_s, 0.99),
        "slowdown_mean": _mean(times.slowdown),
        "slowdown_p99": _quantile(times.slowdown, 0.99),
        "rho_mean": _mean(rho),
        "rho_max": _quantile(rho, 1.0),
        "rho_unfair_share": _mean((rho > 1.0 + 1e-9).astype(np.float64)),
    }


def _of_use(replay: Replay, times: JobTimes, walked: Integrals) -> dict[str, float]:
    from_s, to_s = horizon(replay)
    there_gpu_s = float(walked.bucket[rows.THERE].sum())
    allocated_gpu_s = float(walked.bucket[rows.ALLOCATED].sum())
    held_gpu_s = float(walked.total[rows.TOTAL_HELD])
    work_gpu_s = float(times.work_gpu_s.sum())
    lost_gpu_s = float(np.nansum(replay.lost_s * ratio(times.gpu_s, times.run_s)))
    shared = allocated_gpu_s / held_gpu_s if held_gpu_s > 0 else 1.0
    bill = bill_of(replay, from_s=from_s, to_s=to_s, shared=shared)
    return {
        "utilisation": _share(allocated_gpu_s, there_gpu_s),
        "utilisation_arrivals": _share(
            walked.total[rows.TOTAL_ARRIVAL_ALLOCATED], walked.total[rows.TOTAL_ARRIVAL_THERE]
        ),
        "utilisation_busy": _share(max(0.0, allocated_gpu_s - lost_gpu_s), there_gpu_s),
        "utilisation_effective": _share(work_gpu_s, there_gpu_s),
        "fragmentation": _share(walked.total[rows.TOTAL_FRAGMENT], to_s - from_s),
        "queue_mean": _share(walked.bucket[rows.QUEUE].sum(), to_s - from_s),
        "queue_max": float(walked.queue_max.max()),
        "lost_gpu_h": lost_gpu_s / HOUR_S,
        "goodput": _share(work_gpu_s, to_s - from_s),
        "gpu_h": allocated_gpu_s / HOUR_S,
        "cost": bill.cost,
        "energy_kwh": bill.energy_kwh,
        "co2_kg": bill.co2_kg,
    }


def _timeline(walked: Integrals) -> Timeline:
    width_s = np.diff(walked.edges_s)
    return Timeline(
        edges_s=walked.edges_s,
        queue_mean=walked.bucket[rows.QUEUE] / width_s,
        queue_min=np.where(np.isinf(walked.queue_min), 0.0, walked.queue_min),
        queue_max=walked.queue_max,
        allocated_gpus=walked.bucket[rows.ALLOCATED] / width_s,
        capacity_gpus=walked.bucket[rows.THERE] / width_s,
        demand_s=walked.bucket[rows.DEMAND],
        short_s=walked.bucket[rows.SHORT],
        share_short_s=walked.bucket[rows.SHARE_SHORT],
    )


def _compliance(walked: Integrals, row: int) -> float:
    """Return the share of tenants' time with waiting jobs in which they had their target."""
    demand_s = float(walked.bucket[rows.DEMAND].sum())
    return 1.0 - float(walked.bucket[row].sum()) / demand_s if demand_s > 0 else 1.0


def _deadlines_met(replay: Replay, jct_s: Floats) -> float:
    """Return the share of deadlines that were met; jobs that did not finish missed theirs."""
    asked = ~np.isnan(replay.trace.deadline_s)
    met = jct_s[asked] <= replay.trace.deadline_s[asked] + 1e-6
    return float(met.mean()) if len(met) else float("nan")


def _mean(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _quantile(values: Floats, q: float) -> float:
    known = values[~np.isnan(values)]
    return float(np.quantile(known, q)) if len(known) else float("nan")


def _share(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole > 0 else float("nan")
