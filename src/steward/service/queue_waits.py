"""Waits at sites that a steward looks after, for plans: from its queue and its history."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from steward.errors import StewardError
from steward.learn.estimators.job_history import JobHistory
from steward.model.identity import TenantId
from steward.model.job import JobRequest, JobShape
from steward.model.planning.catalog import CatalogSite
from steward.model.planning.plan import Range
from steward.service.start_times import start_time_of

__all__ = ["Look", "live_waits"]

Look = Callable[[str], tuple[Mapping[str, Any], JobHistory]]  # raises where there is no steward


def live_waits(
    sites: Iterable[CatalogSite], counts: Collection[int], look: Look
) -> tuple[dict[str, Range], tuple[str, ...]]:
    """Return the wait at each site with a steward, and what is missing.

    Of the numbers of GPUs asked for, the largest that a site has decides: smaller jobs wait no
    longer. `look` returns what `GET /api/v1/cluster` answers at a steward's site, and what it has
    learnt.
    """
    waits: dict[str, Range] = {}
    notes: list[str] = []
    largest_first = sorted({each for each in counts if each > 0}, reverse=True)
    for site in sites:
        if not site.steward_site or not largest_first:
            continue
        try:
            cluster, history = look(site.steward_site)
        except StewardError as fault:
            notes.append(f"the queue of {site.name} is not known: {fault.problem}")
            continue
        starts = (start_time_of(_asked(gpus), cluster, history) for gpus in largest_first)
        start = next((each for each in starts if not each.never), None)
        if start is None:
            least = f"{largest_first[-1]} GPU{'s' * (largest_first[-1] != 1)}"
            notes.append(f"{site.name} has fewer than {least}: its queue tells nothing")
            continue
        waits[site.name] = Range(low=start.low_s, mid=start.mid_s, high=start.high_s)
    return waits, tuple(notes)


def _asked(gpus: int) -> JobRequest:
    return JobRequest(shape=JobShape(gpus=gpus), tenant=TenantId(""), user="", name="")
