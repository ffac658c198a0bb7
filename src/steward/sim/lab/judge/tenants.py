"""How each tenant of a replay fared."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.model.replay import Replay
from steward.sim.lab.judge.integrals import Integrals
from steward.sim.lab.judge.job_times import JobTimes, added_up, ratio
from steward.sim.lab.judge.measures import TenantMeasures
from steward.sim.lab.judge.timeline_events import EventTape, horizon, ready_s

__all__ = ["tenant_measures"]

Floats = NDArray[np.float64]


def tenant_measures(
    replay: Replay, tape: EventTape, times: JobTimes, walked: Integrals
) -> tuple[TenantMeasures, ...]:
    """Return a row per tenant; jobs that name none come last, if there are any."""
    from_s, to_s = horizon(replay)
    length_s = max(to_s - from_s, 1e-9)
    many = len(tape.quota)

    def per_tenant(values: Floats) -> Floats:
        return added_up(tape.tenant, values, many)

    finished = ~np.isnan(times.jct_s)
    ends = per_tenant(finished.astype(np.float64))
    waiting_gpu_s = _unserved_s(replay, times, to_s) * replay.trace.gpus
    rows = zip(
        (*replay.trace.tenants, ""),
        tape.quota.tolist(),
        (per_tenant(times.gpu_s) / length_s).tolist(),
        (per_tenant(waiting_gpu_s) / length_s).tolist(),
        (walked.shortfall_gpu_s / length_s).tolist(),
        np.nan_to_num(ratio(walked.short_s, walked.demand_s)).tolist(),
        np.bincount(tape.tenant, minlength=many).tolist(),
        ratio(per_tenant(np.nan_to_num(times.jct_s)), ends).tolist(),
        ratio(per_tenant(np.nan_to_num(times.wait_s)), ends).tolist(),
        strict=True,
    )
    made = [
        TenantMeasures(
            tenant=name,
            quota_gpus=quota,
            held_gpus=held,
            waiting_gpus=waiting,
            shortfall_gpus=shortfall,
            short_share=short,
            jobs=jobs,
            jct_mean_s=jct,
            wait_mean_s=wait,
        )
        for name, quota, held, waiting, shortfall, short, jobs, jct, wait in rows
    ]
    return tuple(row for row in made if row.tenant or row.jobs)


def _unserved_s(replay: Replay, times: JobTimes, to_s: float) -> Floats:
    """Return how long each job was ready and not running."""
    ready = np.minimum(ready_s(replay), to_s)
    ends = np.where(np.isnan(replay.end_s), to_s, replay.end_s)
    return np.maximum(0.0, ends - ready - times.run_s)
