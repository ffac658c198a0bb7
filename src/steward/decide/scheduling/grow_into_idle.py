"""Gives running jobs that can use more GPUs those that nobody waits for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steward.decide.placement.free_pools import Pools, free_pools
from steward.model.actions import Resize
from steward.model.decision import Decision, Expectation
from steward.model.forecast import RUN_LEFT_S, About, ForecastColumn
from steward.model.frame import job_entity
from steward.model.identity import DecisionId, stable_id
from steward.model.job import Job
from steward.model.view import QUEUED, RUNNING, ClusterView

__all__ = ["GrowIntoIdle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowIntoIdle:
    """Lets a running job that may have more GPUs take free ones, while no job waits for any.

    Each added GPU is taken to do `scaling_share` of the work of one that it has. It grows if that
    ends it sooner by `least_gain` times what saving and restoring take, after `after_s`, and on the
    nodes that it is on.
    """

    after_s: float = 600.0
    scaling_share: float = 0.8
    least_gain: float = 4.0
    check_after_s: float = 1800.0
    name: str = "grow-into-idle"

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return a larger size for each job that gains by it, those that run longest first."""
        left = view.forecast(About.JOBS, RUN_LEFT_S)
        waits = (view.jobs.state == QUEUED) & (view.jobs.gpus > 0)
        if left is None or bool(waits.any()):
            return ()
        return tuple(self._decisions(view, left))

    def _decisions(self, view: ClusterView, left: ForecastColumn) -> Iterator[Decision]:
        pools = free_pools(view)
        jobs = view.jobs
        old = (jobs.state == RUNNING) & (view.t_s - jobs.start_s >= self.after_s)
        rows = np.flatnonzero(old & ~jobs.reserved & (left.mid > 0))
        for row in rows[np.argsort(-left.mid[rows], kind="stable")].tolist():
            job = view.details[view.job_id(row)]
            added = _room(view, job, pools)
            sooner_s = self._sooner_s(job, len(added), float(left.mid[row]))
            then = (*job.gpus, *(view.gpu_id(each) for each in added))
            action = Resize(job=job.id, now=job.gpus, then=tuple(sorted(then)))
            if sooner_s > 0 and not action.unmet(view):
                for node in pools:
                    pools[node] = [each for each in pools[node] if each not in added]
                yield self._decision(view, job, action, sooner_s, left=left, row=row)

    def _sooner_s(self, job: Job, added: int, left_s: float) -> float:
        """Return how much sooner a job ends with so many more GPUs; 0 if it is not worth it."""
        has = len(job.gpus)
        if not added or not has:
            return 0.0
        able = job.checkpointing
        cost_s = able.save_s + able.restore_s
        sooner_s = left_s * (1.0 - has / (has + self.scaling_share * added))
        return sooner_s - cost_s if sooner_s > self.least_gain * cost_s else 0.0

    def _decision(
        self,
        view: ClusterView,
        job: Job,
        action: Resize,
        sooner_s: float,
        *,
        left: ForecastColumn,
        row: int,
    ) -> Decision:
        added = len(action.gpus)
        held = len(action.then) * self.check_after_s
        cost = (job.checkpointing.save_s + job.checkpointing.restore_s) * len(action.then)
        because = (
            f"nobody waits for {added} free GPUs beside the {len(job.gpus)} of job {job.id}, which "
            f"may have {job.shape.gpu_range[1]}: it ends about {sooner_s / 60:.0f} min sooner"
        )
        return Decision(
            id=DecisionId(stable_id("d", self.name, job.id, job.start_s, len(action.then))),
            t_s=view.t_s,
            policy=self.name,
            action=action,
            because=because,
            forecasts=(left.row(row, job.id),),
            expects=Expectation(low=max(held - cost, 0.0), mid=held, high=held),
            check_after_s=self.check_after_s,
            tenant=job.tenant,
            subject=job_entity(job.id),
        )


def _room(view: ClusterView, job: Job, pools: Pools) -> list[int]:
    """Return free GPUs on a job's own nodes that it may take, as many as it may have."""
    own = [view.gpu_row[gpu] for gpu in job.gpus if gpu in view.gpu_row]
    models = {int(each) for each in view.gpus.model[own]}
    nodes = sorted({int(each) for each in view.gpus.node[own]})
    free = [each for node in nodes for each in pools.get(node, ())]
    fit = [each for each in free if int(view.gpus.model[each]) in models]
    return fit[: max(0, job.shape.gpu_range[1] - len(job.gpus))]
