"""Waits at sites that a steward looks after, for plans: from its queue and its history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from steward.errors import StewardError
from steward.learn.estimators.job_history import JobHistory
from steward.model.identity import TenantId
from steward.model.job import JobRequest, JobShape
from steward.model.planning.catalog import Catalog
from steward.model.planning.plan import Range
from steward.service.start_times import start_time_of

__all__ = ["Look", "live_waits"]

Look = Callable[[str], tuple[Mapping[str, Any], JobHistory]]  # raises where there is no steward


def live_waits(catalog: Catalog, gpus: int, look: Look) -> tuple[dict[str, Range], tuple[str, ...]]:
    """Return the wait of a job of so many GPUs at each site with a steward, and what is missing.

    `look` returns what `GET /api/v1/cluster` answers at a steward's site, and what it has learnt.
    """
    waits: dict[str, Range] = {}
    notes: list[str] = []
    for site in catalog.sites:
        if not site.steward_site or gpus == 0:
            continue
        try:
            cluster, history = look(site.steward_site)
        except StewardError as fault:
            notes.append(f"the queue of {site.name} is not known: {fault.problem}")
            continue
        asked = JobRequest(shape=JobShape(gpus=gpus), tenant=TenantId(""), user="", name="")
        start = start_time_of(asked, cluster, history)
        if start.never:
            notes.append(f"{site.name} has fewer than {gpus} GPUs: its queue tells nothing")
            continue
        waits[site.name] = Range(low=start.low_s, mid=start.mid_s, high=start.high_s)
    return waits, tuple(notes)
