"""Raises waiting jobs that would miss their deadline, or that their tenant's guarantee covers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steward.model.actions import Reprioritise
from steward.model.decision import Decision
from steward.model.forecast import RUN_LIMITS_S, About
from steward.model.frame import job_entity
from steward.model.identity import DecisionId, stable_id
from steward.model.job import Job
from steward.model.view import QUEUED, ClusterView

__all__ = ["RaiseLate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Urgent:
    """A waiting job that should go before others, and why."""

    row: int
    job: Job
    slack_s: float  # until it has to start
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseLate:
    """Raises the priority of a waiting job above all that are not urgent, once.

    Urgent is one that has to start within `slack_s` to be done by its deadline, by what jobs like
    it take at most (nine of ten) or its time limit; and, after `starved_after_s`, one whose tenant
    holds less than its guarantee, which covers the job, while others hold more than theirs. The
    engine may refuse what its rights do not cover, as a nice value below 0.
    """

    slack_s: float = 1800.0
    starved_after_s: float = 600.0
    check_after_s: float = 1800.0
    name: str = "raise-late"

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return a priority for each urgent job that is not first already, most urgent first."""
        urgent = sorted(self._urgent(view), key=lambda each: (each.slack_s, each.row))
        rows = {each.row for each in urgent}
        waiting = np.flatnonzero((view.jobs.state == QUEUED) & (view.jobs.gpus > 0)).tolist()
        others = [int(view.jobs.priority[row]) for row in waiting if row not in rows]
        top = max(others, default=None)
        if top is None:
            return ()
        return tuple(
            self._decision(view, each, top + 1) for each in urgent if each.job.priority <= top
        )

    def _urgent(self, view: ClusterView) -> Iterator[_Urgent]:
        jobs = view.jobs
        waiting = (jobs.state == QUEUED) & (jobs.gpus > 0) & ~jobs.reserved
        for row in np.flatnonzero(waiting).tolist():
            job = view.details[view.job_id(row)]
            found = self._late(view, row, job) or self._starved(view, row, job)
            if found is not None:
                yield found

    def _late(self, view: ClusterView, row: int, job: Job) -> _Urgent | None:
        """Return a job that has little time left before it has to start; not one that is late."""
        limits = view.forecast(About.JOBS, RUN_LIMITS_S)
        known = limits is not None and not np.isnan(limits.high[row])
        run_s = float(limits.high[row]) if limits is not None and known else job.time_limit_s
        if job.deadline_s is None or run_s is None:
            return None
        slack_s = job.deadline_s - run_s - view.t_s
        if slack_s > self.slack_s or job.deadline_s <= view.t_s:
            return None
        why = (
            f"job {job.id} runs for up to {run_s / 60:.0f} min, and its deadline is in "
            f"{(job.deadline_s - view.t_s) / 60:.0f} min"
        )
        return _Urgent(row=row, job=job, slack_s=slack_s, why=why)

    def _starved(self, view: ClusterView, row: int, job: Job) -> _Urgent | None:
        """Return a job that its tenant's guarantee covers, while others hold more than theirs."""
        tenants, tenant = view.tenants, int(view.jobs.tenant[row])
        waited_s = view.t_s - float(view.jobs.queued_s[row])
        if tenant < 0 or waited_s < self.starved_after_s:
            return None
        room = int(tenants.guaranteed[tenant] - tenants.held[tenant])
        beyond = tenants.held > tenants.guaranteed
        beyond[tenant] = False
        if job.shape.gpus > room or not beyond.any():
            return None
        why = (
            f"{job.tenant} is guaranteed {tenants.guaranteed[tenant]} GPUs and holds "
            f"{tenants.held[tenant]}, others hold more than theirs, and job {job.id} has waited "
            f"{waited_s / 60:.0f} min"
        )
        return _Urgent(row=row, job=job, slack_s=self.slack_s, why=why)

    def _decision(self, view: ClusterView, urgent: _Urgent, priority: int) -> Decision:
        job = urgent.job
        action = Reprioritise(job=job.id, before=job.priority, priority=priority)
        return Decision(
            id=DecisionId(stable_id("d", self.name, job.id, job.submit_s, job.past.stops)),
            t_s=view.t_s,
            policy=self.name,
            action=action,
            because=f"{urgent.why}; {_before(view, job.priority)} wait before it",
            check_after_s=self.check_after_s,
            tenant=job.tenant,
            subject=job_entity(job.id),
        )


def _before(view: ClusterView, priority: int) -> str:
    """Return how many waiting jobs have at least this priority, beside the one that has it."""
    jobs = view.jobs
    ahead = (jobs.state == QUEUED) & (jobs.gpus > 0) & (jobs.priority >= priority)
    return f"{int(ahead.sum()) - 1} jobs"
