"""Small moments in which jobs wait, and what policies make of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from factories import column, job, node, tenants, view
from steward.model.actions import Preempt, Resume, Start
from steward.model.decision import Decision
from steward.model.forecast import (
    RUN_LEFT_S,
    RUN_RANK_ALL_GPU_S,
    RUN_RANK_GPU_S,
    RUN_TYPICAL_S,
    RUN_USES_GPU_S,
    SIMILAR_JOBS,
    About,
)
from steward.model.job import Job, JobShape, JobState, Tenant
from steward.model.view import ClusterView


def waiting(name: str, gpus: int = 1, *, since_s: float = 0.0, **changes: Any) -> Job:
    """Return a job that waits for so many GPUs."""
    return job(name, shape=JobShape(gpus=gpus), submit_s=since_s, **changes)


def running(name: str, *gpus: int, since_s: float = 0.0, **changes: Any) -> Job:
    """Return a job that runs on these GPUs of node n1."""
    return job(name, on=[f"n1/gpu{i}" for i in gpus], start_s=since_s, **changes)


def stopped(name: str, gpus: int = 1, *, ran: Iterable[tuple[float, float]], **changes: Any) -> Job:
    """Return a waiting job that ran from and to these times before."""
    made = waiting(name, gpus, **changes)
    for from_s, to_s in ran:
        made = made.changed(from_s, JobState.RUNNING, "started")
        made = made.changed(to_s, JobState.QUEUED, "made room")
    return made


def sharing(**guaranteed: int) -> tuple[Tenant, ...]:
    return tuple(
        Tenant(id=tenant.id, guaranteed_gpus=guaranteed[tenant.id])
        for tenant in tenants(*guaranteed)
    )


def queue(gpus: int, *jobs: Job, of: tuple[Tenant, ...] = (), t_s: float = 1000.0) -> ClusterView:
    """Return a moment of one node with so many GPUs."""
    return view(node("n1", gpus), jobs=jobs, of=of, t_s=t_s)


def believing_jobs(
    seen: ClusterView,
    *,
    left_s: Mapping[str, float] | None = None,
    rank_s: Mapping[str, float] | None = None,
) -> ClusterView:
    """Return the view with forecasts about its jobs; those left out are unknown."""
    columns = []
    for quantity, said in (
        (RUN_LEFT_S, left_s),
        (RUN_TYPICAL_S, left_s),
        (RUN_USES_GPU_S, left_s),
        (RUN_RANK_GPU_S, rank_s),
        (RUN_RANK_ALL_GPU_S, rank_s),
    ):
        if said is not None:
            values = np.array([said.get(id_, np.nan) for id_ in seen.jobs.ids])
            if quantity == RUN_USES_GPU_S:
                values = values * seen.jobs.gpus
            columns.append(column(quantity, values, about=About.JOBS))
            columns.append(column(SIMILAR_JOBS, np.full(len(values), 12.0), about=About.JOBS))
    return seen.with_forecasts(columns)


def starts(decisions: Iterable[Decision]) -> list[str]:
    return [each.action.job for each in decisions if isinstance(each.action, Start | Resume)]


def stops(decisions: Iterable[Decision]) -> list[str]:
    return [each.action.job for each in decisions if isinstance(each.action, Preempt)]
