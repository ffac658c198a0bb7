"""Why a job does not run, from what Kubernetes and Kueue say about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steward.clients.kubernetes.objects import maps_in
from steward.clients.kubernetes_jobs.job_life import life_of, pod_life
from steward.clients.kubernetes_jobs.job_lookup import JobLookup
from steward.clients.kubernetes_jobs.listed_job import KubeJob
from steward.model.managed_job import LifeState

__all__ = ["waiting_reasons"]

MOST = 8
_KUEUE = {  # what is said of a condition, by its status
    ("QuotaReserved", "False"): "Kueue has no quota for it",
    ("Admitted", "False"): "Kueue has not admitted it",
    ("Evicted", "True"): "Kueue has evicted it",
    ("Preempted", "True"): "Kueue has preempted it",
}


def waiting_reasons(job: KubeJob, lookup: JobLookup) -> list[str]:
    """Return the reasons, the most general first."""
    made = job.job
    reasons = []
    if made is not None and made.suspended:
        who = ", ".join(sorted(made.suspended_by)) or "somebody whom the server did not note"
        reasons.append(f"its Job is suspended, by {who}")
        if made.did is not None:
            reasons.append(f"the last decision of steward: {made.did.did} {made.did.id}: "
                           f"{made.did.why}".rstrip(": "))  # fmt: skip
    if made is not None and made.queue:
        reasons += _of_kueue(lookup.workload(made.uid), made.queue)
    waiting = [each.pod for each in job.tasks if each.pod.phase == "Pending"]
    reasons += [pod_life(pod)[1] for pod in waiting]
    if not job.ended and not job.live:
        names = [job.job_name, *(pod.name for pod in waiting[:1])]
        reasons += lookup.warnings(*(name for name in names if name))
    summary = life_of(job)
    known = {summary[1]} if summary[0] is not LifeState.HELD else set()
    return [each for each in dict.fromkeys(reasons) if each not in known][:MOST]


def _of_kueue(workload: Mapping[str, Any] | None, queue: str) -> list[str]:
    if workload is None:
        return [f"queue {queue}: Kueue has made no Workload for it that can be seen"]
    status = workload.get("status")
    found = []
    for each in maps_in(status if isinstance(status, dict) else {}, "conditions"):
        text = _KUEUE.get((str(each.get("type")), str(each.get("status"))))
        if text:
            why = f"{each.get('reason') or ''}: {each.get('message') or ''}".strip(": ")
            found.append(f"{text}: {why}".rstrip(": "))
    return found or [f"queue {queue}: Kueue has not looked at it yet"]
