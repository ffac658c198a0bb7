"""Separates jobs that share a GPU where one is measured to be slowed down too much by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steward.decide.placement.free_pools import Pools, free_pools, take_like
from steward.model.actions import CallBack, Migrate
from steward.model.decision import Decision, Expectation
from steward.model.forecast import RUN_LEFT_S, SLOWDOWN_SHARE, About, Forecast, ForecastColumn
from steward.model.frame import job_entity
from steward.model.identity import DecisionId, stable_id
from steward.model.job import Job
from steward.model.view import RUNNING, ClusterView

__all__ = ["SeparateSlowed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeparateSlowed:
    """Ends a shared loan, or moves one of two jobs that share a GPU, where one is slowed down.

    By its own steps (`step-rates`), a job has to be slower than its owner allows, or than
    `least_slowdown_share` where nothing is allowed, in nine of ten cases. A loan is called back,
    whatever that costs the borrower. Of two that share a GPU in their own right, the one that it
    costs less saves and goes on on free GPUs, if what is gained over the time that the slowed one
    will run for is `least_gain` times that.
    """

    least_slowdown_share: float = 0.2
    least_gain: float = 2.0
    check_after_s: float = 600.0
    name: str = "separate-slowed"

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return a call-back or a move for each job that is slowed down, in the order of jobs."""
        slower = view.forecast(About.JOBS, SLOWDOWN_SHARE)
        return () if slower is None else tuple(self._decisions(view, slower))

    def _decisions(self, view: ClusterView, slower: ForecastColumn) -> Iterator[Decision]:
        pools, moved = free_pools(view), set[int]()
        for row in np.flatnonzero((view.jobs.state == RUNNING) & (slower.low > 0)).tolist():
            job = view.details[view.job_id(row)]
            allowed = job.max_slowdown_share or self.least_slowdown_share
            beside = _beside(view, row)
            if slower.low[row] <= allowed or not beside or moved & {row, *beside}:
                continue
            loan = next((each for each in view.loans if each.shared and each.owner == job.id), None)
            if loan is not None:
                back = CallBack(
                    loan=loan.id, gpus=loan.gpus, owner=loan.owner, borrower=loan.borrower
                )
                yield self._decision(view, job, back, slower.row(row, job.id), allowed)
                continue
            made = self._move(view, row, beside, slower, pools)
            if made is not None:
                moved |= {row, *beside}
                yield made

    def _move(
        self,
        view: ClusterView,
        row: int,
        beside: list[int],
        slower: ForecastColumn,
        pools: Pools,
    ) -> Decision | None:
        """Return a move of the cheapest of the jobs on a GPU; None if none pays, or has room."""
        left = view.forecast(About.JOBS, RUN_LEFT_S)
        if left is None or np.isnan(left.mid[row]):
            return None
        slowed = view.details[view.job_id(row)]
        gained = float(slower.low[row] * left.mid[row]) * len(slowed.gpus)
        for each in sorted((row, *beside), key=lambda one: (_cost(view, one), one)):
            job = view.details[view.job_id(each)]
            cost = _cost(view, each)
            if not gained > self.least_gain * cost or bool(view.jobs.reserved[each]):
                continue
            rows = [view.gpu_row[gpu] for gpu in job.gpus if gpu in view.gpu_row]
            kept = [gpu for gpu in rows if view.gpus.users[gpu] == 1]
            chosen = take_like(view, each, rows, pools, kept=kept)
            action = Migrate(
                job=job.id, source=job.gpus, target=tuple(view.gpu_id(gpu) for gpu in chosen)
            )
            if chosen and not action.unmet(view):
                allowed = slowed.max_slowdown_share or self.least_slowdown_share
                belief = slower.row(row, slowed.id)
                return self._decision(view, slowed, action, belief, allowed, cost=cost)
        return None

    def _decision(
        self,
        view: ClusterView,
        slowed: Job,
        action: CallBack | Migrate,
        belief: Forecast,
        allowed: float,
        *,
        cost: float = 0.0,
    ) -> Decision:
        which = action.loan if isinstance(action, CallBack) else (action.job, *action.source)
        because = (
            f"job {slowed.id} steps {belief.low:.0%} to {belief.high:.0%} slower than it did, "
            f"which is more than {allowed:.0%}, and shares its GPUs"
        )
        return Decision(
            id=DecisionId(stable_id("d", self.name, slowed.id, slowed.start_s, which)),
            t_s=view.t_s,
            policy=self.name,
            action=action,
            because=because,
            forecasts=(belief,),
            expects=Expectation(low=-cost, mid=-cost, high=-cost),
            check_after_s=self.check_after_s,
            tenant=slowed.tenant,
            subject=job_entity(slowed.id),
        )


def _beside(view: ClusterView, row: int) -> list[int]:
    """Return the other jobs on a job's GPUs, by row."""
    where = view.allocations
    gpus = where.gpu[where.job == row]
    shared = gpus[view.gpus.users[gpus] > 1]
    found = np.unique(where.job[np.isin(where.gpu, shared)]).tolist()
    return [each for each in found if each != row]


def _cost(view: ClusterView, row: int) -> float:
    """Return the GPU time that a save and a start cost; infinite for a job that cannot save."""
    job = view.details[view.job_id(row)]
    able = job.checkpointing
    return (able.save_s + able.restore_s) * len(job.gpus) if able.able else float("inf")
