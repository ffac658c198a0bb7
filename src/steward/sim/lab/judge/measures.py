"""The figures of one replay, by the names that reports and JSON use."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

__all__ = ["FIGURES", "LOWER_IS_BETTER", "Measures", "TenantMeasures", "Timeline"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantMeasures:
    """How one tenant fared. GPUs are means over the whole replay."""

    tenant: str  # "" holds the jobs that name no tenant
    quota_gpus: float
    held_gpus: float
    waiting_gpus: float
    shortfall_gpus: float  # below its guarantee while a job of it would have fit
    short_share: float  # of the time in which it had waiting jobs
    jobs: int
    jct_mean_s: float
    wait_mean_s: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timeline:
    """The replay in equal buckets of time; extremes of the queue are kept."""

    edges_s: Floats  # one more than there are buckets
    queue_mean: Floats
    queue_min: Floats
    queue_max: Floats
    allocated_gpus: Floats
    capacity_gpus: Floats
    demand_s: Floats  # tenant-seconds with waiting jobs
    short_s: Floats  # of these below the guarantee
    share_short_s: Floats  # of these below guarantee and weighted excess


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measures:
    """What a policy made of a trace. Shares are 0..1; NaN says that a figure has no meaning here.

    `utilisation` is what was held over what was there from the first submission to the last end;
    `utilisation_arrivals` stops at the last submission. `utilisation_busy` leaves out saving and
    restoring, `utilisation_effective` counts work done at the size asked for.
    """

    jobs: int
    finished: int
    unfinished: int
    jct_mean_s: float
    jct_p50_s: float
    jct_p99_s: float
    wait_mean_s: float
    wait_p50_s: float
    wait_p99_s: float
    makespan_s: float
    utilisation: float
    utilisation_arrivals: float
    utilisation_busy: float
    utilisation_effective: float
    fragmentation: float  # mean share of GPUs free while a waiting job asks for no more than that
    queue_mean: float
    queue_max: float
    rho_mean: float
    rho_max: float
    rho_unfair_share: float  # of jobs that took longer than alone on their equal part
    slowdown_mean: float
    slowdown_p99: float
    fairness_compliance: float
    share_compliance: float
    preemptions: int
    lost_gpu_h: float
    goodput: float  # GPU-seconds of work per second
    gpu_h: float  # held
    cost: float  # of all machines while they were there
    energy_kwh: float
    co2_kg: float
    deadlines_met_share: float
    decisions: int
    cpu_s: float
    tenants: tuple[TenantMeasures, ...]
    timeline: Timeline

    def figures(self) -> dict[str, float]:
        """Return every plain number by its name."""
        return {name: getattr(self, name) for name in FIGURES}


FIGURES: tuple[str, ...] = tuple(
    each.name for each in fields(Measures) if each.name not in ("tenants", "timeline")
)
LOWER_IS_BETTER: dict[str, bool] = {
    **dict.fromkeys(
        (
            *("unfinished", "jct_mean_s", "jct_p50_s", "jct_p99_s", "wait_mean_s", "wait_p50_s"),
            *("wait_p99_s", "makespan_s", "fragmentation", "queue_mean", "queue_max", "rho_mean"),
            *("rho_max", "rho_unfair_share", "slowdown_mean", "slowdown_p99", "preemptions"),
            *("lost_gpu_h", "cost", "energy_kwh", "co2_kg", "cpu_s"),
        ),
        True,
    ),
    **dict.fromkeys(
        (
            *("utilisation", "utilisation_arrivals", "utilisation_busy", "utilisation_effective"),
            *("fairness_compliance", "share_compliance", "goodput", "deadlines_met_share"),
        ),
        False,
    ),
}
