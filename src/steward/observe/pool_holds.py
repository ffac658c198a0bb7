"""Which waiting jobs may not be started, by the pools whose idle guarantees they would borrow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from steward.clients.kubernetes.annotations import SAVES
from steward.clients.kubernetes.pool_usage import PoolUsage

__all__ = ["WaitingJob", "pool_holds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """What a pool has to know about a job that could be started."""

    uid: str
    namespace: str
    created_s: float  # the older has what is left
    devices: Mapping[str, int]  # of all its pods together
    selector: Mapping[str, str] = field(default_factory=dict)
    priority_class: str = ""
    save_s: float | None = None
    end_s: float = 30.0  # how long it takes at most to be gone after it is called back


def pool_holds(waiting: Iterable[WaitingJob], usages: Mapping[str, PoolUsage]) -> dict[str, str]:
    """Return why jobs may not be started now, by uid.

    Those that may are counted at once as if they were: two that are started in the same moment must
    not both take what is there once.
    """
    now, held = dict(usages), {}
    for job in sorted(waiting, key=lambda each: (each.created_s, each.uid)):
        possible = [each for each in now.values() if each.pool.may_get(job.selector)]
        bound = [each for each in possible if each.pool.selects(job.selector)]
        why = next((text for each in possible if (text := _unfit(job, each))), "")
        if why:
            held[job.uid] = why
            continue
        for each in bound[:1]:
            if each.has_room(job.devices):  # one that does not fit keeps nothing from others
                now[each.pool.name] = each.with_more(job.namespace, job.devices)
    return held


def _unfit(job: WaitingJob, usage: PoolUsage) -> str:
    """Return why a pool lends nothing to a job that would borrow, or an empty text."""
    pool, gpus = usage.pool, usage.pool.count(job.devices)
    borrows = usage.borrows(job.namespace, gpus)
    if not borrows:
        return ""
    limit_s = pool.call_back_s
    faults = {
        "lends nothing": not pool.lends,
        "lends only its own nodes, and the job's nodeSelector does not say "
        + ", ".join(f"{key}: {value}" for key, value in pool.node_selector.items()): (
            not pool.selects(job.selector)
        ),
        f"lends to priority class {pool.borrower_class}, and it has "
        f"{job.priority_class or 'none'}": pool.borrower_class not in ("", job.priority_class),
        f"lends to jobs that can save (annotation {SAVES})": job.save_s is None,
        f"calls back within {limit_s or 0:.0f} s, and it may take {job.end_s:.0f} s to end": (
            limit_s is not None and job.end_s > limit_s
        ),
    }
    why = next((text for text, holds in faults.items() if holds), "")
    return f"it would borrow {borrows} GPUs: pool {pool.name} {why}" if why else ""
