"""A policy as somebody else would write it: it knows `steward.model` and nothing else of ours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steward.model.actions import Preempt, Start
from steward.model.decision import Decision
from steward.model.identity import DecisionId, JobId, TenantId, stable_id
from steward.model.view import HEALTH_CODES, QUEUED, ClusterView, Health


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestFirst:
    """Start the newest job first, on any free GPUs."""

    at_once: int = 1000
    name: str = "newest-first"

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        jobs, gpus = view.jobs, view.gpus
        healthy = gpus.health == HEALTH_CODES[Health.GOOD]
        free = np.flatnonzero((gpus.users == 0) & healthy & ~gpus.reserved).tolist()
        waiting = np.flatnonzero((jobs.state == QUEUED) & ~jobs.reserved)
        made = []
        for row in waiting[np.argsort(-jobs.submit_s[waiting], kind="stable")].tolist():
            count = int(jobs.gpus[row])
            if count <= len(free) and len(made) < self.at_once:
                ids = tuple(view.gpu_id(gpu) for gpu in free[:count])
                made.append(decided(view, self.name, Start(job=view.job_id(row), gpus=ids)))
                del free[:count]
        return tuple(made)


class StartsNowhere:
    name = "starts-nowhere"

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        (job,) = view.jobs.ids
        return (decided(view, self.name, Start(job=JobId(job), gpus=("n9/gpu0",))),)


class StopsStrangers:
    name = "stops-strangers"

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        return (decided(view, self.name, Preempt(job=JobId("stranger"), gpus=())),)


def decided(view: ClusterView, policy: str, action: Start | Preempt) -> Decision:
    job = view.details.get(action.job)
    return Decision(
        id=DecisionId(stable_id("d", policy, action.job, view.t_s)),
        t_s=view.t_s,
        policy=policy,
        action=action,
        because="it is the newest that fits",
        check_after_s=600.0,
        tenant=job.tenant if job else TenantId(""),
    )
