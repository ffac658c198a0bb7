"""Lets running jobs go on without the GPUs that they have never used, where others wait."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steward.model.actions import Resize
from steward.model.decision import Decision, Expectation
from steward.model.forecast import RUN_LEFT_S, About
from steward.model.frame import job_entity
from steward.model.identity import DecisionId, GpuId, stable_id
from steward.model.job import Job
from steward.model.view import QUEUED, RUNNING, ClusterView

__all__ = ["ReleaseUnused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseUnused:
    """Shrinks a running job that may run on fewer GPUs to those that it uses.

    It shows that as for `ask-for-what-is-used`: after `after_s` it uses some of its GPUs, and has
    left the others alone ever since its first `settle_s`. Only where a job waits that could run on
    what is freed, and if it will run on for `least_gain` times what saving and restoring take.
    """

    after_s: float = 1800.0
    settle_s: float = 600.0
    least_gain: float = 4.0
    check_after_s: float = 1800.0
    name: str = "release-unused"

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return one smaller size for each job that leaves GPUs alone, in the order of the jobs."""
        return tuple(self._decisions(view))

    def _decisions(self, view: ClusterView) -> Iterator[Decision]:
        running = (view.jobs.state == RUNNING) & ~view.jobs.reserved & (view.jobs.gpus > 1)
        for row in np.flatnonzero(running).tolist():
            job = view.details[view.job_id(row)]
            used = self._used(view, row, job)
            freed = tuple(gpu for gpu in job.gpus if gpu not in used)
            if not used or not freed or not self._is_worth_it(view, row, job):
                continue
            action = Resize(job=job.id, now=job.gpus, then=used)
            waiting = _could_use(view, freed)
            if waiting and not action.unmet(view):
                yield self._decision(view, job, action, waiting)

    def _used(self, view: ClusterView, row: int, job: Job) -> tuple[GpuId, ...]:
        """Return the GPUs that a job has used, and others that it has to keep; none: unknown."""
        start_s = float(view.jobs.start_s[row])
        rows = [view.gpu_row[gpu] for gpu in job.gpus if gpu in view.gpu_row]
        alone = bool((view.gpus.users[rows] == 1).all()) and len(rows) == len(job.gpus)
        if not view.t_s - start_s >= self.after_s or not alone:
            return ()
        idle = view.gpus.quiet_since_s[rows] <= start_s + self.settle_s  # NaN: not quiet
        if np.isnan(view.gpus.owner_busy_share[rows]).any() or idle.all():
            return ()
        order = np.lexsort((np.arange(len(rows)), idle))  # those that it uses come first
        count = max(int((~idle).sum()), job.shape.gpu_range[0])
        return tuple(sorted(job.gpus[each] for each in order[:count].tolist()))

    def _is_worth_it(self, view: ClusterView, row: int, job: Job) -> bool:
        left = view.forecast(About.JOBS, RUN_LEFT_S)
        cost_s = job.checkpointing.save_s + job.checkpointing.restore_s
        return left is not None and bool(left.mid[row] > self.least_gain * cost_s)

    def _decision(self, view: ClusterView, job: Job, action: Resize, waiting: str) -> Decision:
        held = len(action.then) * self.check_after_s
        cost = (job.checkpointing.save_s + job.checkpointing.restore_s) * len(action.then)
        because = (
            f"job {job.id} has left {len(action.gpus)} of its {len(job.gpus)} GPUs alone since it "
            f"began, may run on {job.shape.gpu_range[0]}, and job {waiting} waits for what it frees"
        )
        return Decision(
            id=DecisionId(stable_id("d", self.name, job.id, job.start_s, len(action.then))),
            t_s=view.t_s,
            policy=self.name,
            action=action,
            because=because,
            expects=Expectation(low=max(held - cost, 0.0), mid=held, high=held),
            check_after_s=self.check_after_s,
            tenant=job.tenant,
            subject=job_entity(job.id),
        )


def _could_use(view: ClusterView, freed: tuple[GpuId, ...]) -> str:
    """Return a job that waits and needs no more than these GPUs; empty: none."""
    rows = [view.gpu_row[gpu] for gpu in freed]
    models = {int(each) for each in view.gpus.model[rows]}
    for row in np.flatnonzero((view.jobs.state == QUEUED) & (view.jobs.gpus > 0)).tolist():
        fits = sum(view.jobs.model_mask[row] >> each & 1 for each in models) == len(models)
        if fits and view.jobs.gpus[row] <= len(rows) and not view.details[view.job_id(row)].held:
            return view.job_id(row)
    return ""
