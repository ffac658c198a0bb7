"""A moment that can be supposed to be otherwise, or later, without touching the real one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steward.model.actions import Preempt, Resume, Start
from steward.model.event import Observation
from steward.model.forecast import About, ForecastColumn
from steward.model.identity import DecisionId, GpuId, JobId, TenantId
from steward.model.job import Job, JobState, Tenant
from steward.model.moment import Moment
from steward.model.view import HEALTH_CODES, ClusterView
from steward.ports import Policy

__all__ = ["PlannedMove", "SupposedMoment"]

_HEALTH = {code: health for health, code in HEALTH_CODES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    """A job that a policy would start on these GPUs, or stop; `after` others have been stopped."""

    id: DecisionId
    job: JobId
    gpus: tuple[GpuId, ...]
    starts: bool
    after: tuple[DecisionId, ...]


class SupposedMoment:
    """What a view shows, to be changed. What is believed of its jobs stays as it was."""

    def __init__(self, view: ClusterView) -> None:
        self.t_s = view.t_s
        self.jobs = dict(view.details)
        self._real = view
        self._row_of = {JobId(str(id_)): row for row, id_ in enumerate(view.jobs.ids)}
        self._moment = Moment(stale_after_s=np.inf)
        self._moment.fold(
            Observation(
                cluster=view.cluster,
                tenants=_tenants(view),
                health={
                    view.gpu_id(row): _HEALTH[int(code)]
                    for row, code in enumerate(view.gpus.health)
                },
                draining={node.id: view.is_draining(node.id) for node in view.cluster.nodes},
                jobs=tuple(view.details.values()),
            )
        )
        for loan in view.loans:
            self._moment.lend(loan)
        claimed = [f"gpu:{view.gpu_id(row)}" for row in np.flatnonzero(view.gpus.reserved).tolist()]
        claimed += [
            f"job:{view.job_id(row)}" for row in np.flatnonzero(view.jobs.reserved).tolist()
        ]
        self._moment.reserve(claimed)

    def view(self) -> ClusterView:
        """Return the moment as it is supposed to be, with the real one's forecasts."""
        view = self._moment.view(self.t_s)
        rows = np.array([self._row_of[view.job_id(row)] for row in range(len(view.jobs))], np.int64)
        return view.with_forecasts(_aligned(each, rows) for each in self._real.forecasts.values())

    def put(self, *jobs: Job) -> None:
        """Suppose that jobs are like this; one that has ended is gone."""
        self._moment.fold(Observation(jobs=jobs))
        for job in jobs:
            if job.state.ended:
                self.jobs.pop(job.id, None)
            else:
                self.jobs[job.id] = job

    def end(self, id_: JobId) -> None:
        """Suppose that a job ends now."""
        job = self.jobs[id_]
        self.put(replace(job.changed(self.t_s, JobState.COMPLETED, "supposed"), end_s=self.t_s))

    def decided(self, policy: Policy[ClusterView], *, stops: bool) -> list[PlannedMove]:
        """Return what a policy would do; without `stops`, no job makes room for another."""
        moves = [
            PlannedMove(
                id=each.id,
                job=each.action.job,
                gpus=each.action.gpus,
                starts=not isinstance(each.action, Preempt),
                after=each.after,
            )
            for each in policy.decide(self.view())
            if isinstance(each.action, Start | Resume | Preempt)
        ]
        return [each for each in moves if stops or (each.starts and not each.after)]

    def carry_out(self, moves: Sequence[PlannedMove]) -> list[JobId]:
        """Suppose that moves are made at once, and return the jobs that start."""
        for each in moves:
            if each.starts:
                self._start(each.job, each.gpus)
            else:
                job = self.jobs[each.job].changed(self.t_s, JobState.QUEUED, "supposed")
                self.put(replace(job, gpus=()))
        return [each.job for each in moves if each.starts]

    def _start(self, id_: JobId, gpus: tuple[GpuId, ...]) -> None:
        job = self.jobs[id_].changed(self.t_s, JobState.RUNNING, "supposed")
        self.put(replace(job, gpus=gpus, start_s=self.t_s))


def _tenants(view: ClusterView) -> tuple[Tenant, ...]:
    columns = view.tenants
    return tuple(
        Tenant(id=TenantId(str(id_)), weight=float(weight), guaranteed_gpus=int(guaranteed))
        for id_, weight, guaranteed in zip(
            columns.ids, columns.weight, columns.guaranteed, strict=True
        )
    )


def _aligned(column: ForecastColumn, rows: NDArray[np.int64]) -> ForecastColumn:
    """Return a column about jobs with a row for each that is still there."""
    if column.about is not About.JOBS:
        return column
    low, mid, high = (each[rows] for each in (column.low, column.mid, column.high))
    return replace(column, low=low, mid=mid, high=high)
