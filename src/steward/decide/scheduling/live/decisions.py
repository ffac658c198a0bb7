"""From a view to decisions: rank, plan with the compiled kernels, say what to stop and start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from steward.decide.scheduling.kernels.driver import (
    ChangeLog,
    PlanChange,
    driver_parameters,
    empty_log,
    plan_starts_and_stops,
)
from steward.decide.scheduling.live.queue_state import LiveQueueState, live_queue_state
from steward.decide.scheduling.live.ranks import ranks_of
from steward.decide.scheduling.live.reasons import Reasons
from steward.decide.scheduling.ranking import Ranking
from steward.model.actions import Preempt, Resume, Start
from steward.model.decision import Decision, Expectation
from steward.model.forecast import RUN_LEFT_S, About
from steward.model.identity import DecisionId, JobId, stable_id
from steward.model.view import ClusterView

__all__ = ["decide_by_rank"]

CHECK_AFTER_S = 600.0


def decide_by_rank(
    name: str, ranking: Ranking, view: ClusterView, *, placement: str = "packed"
) -> tuple[Decision, ...]:
    """Return which jobs to stop and then which to start now, in the order of the policy `name`."""
    ranks = ranks_of(ranking, view)
    live = live_queue_state(ranking, view, ranks, placement=placement)
    if not live.queue.length.any() or not live.queue.capacity.any():
        return ()
    log = empty_log(2 * len(live.jobs))
    plan_starts_and_stops(live.queue, live.alloc, driver_parameters(ranking), log)
    starts = list(_starts(live, log, view))
    reasons = Reasons(ranking=ranking, view=view, ranks=ranks)
    makes = _Maker(name=name, view=view, reasons=reasons)
    preempted = {row: makes.preempt(row, view.job_id(taker)) for row, taker in _stops(live, log)}
    return (*preempted.values(), *(makes.start(each, preempted) for each in starts))


def _stops(live: LiveQueueState, log: ChangeLog) -> Iterator[tuple[int, int]]:
    """Return which job stops for which, as rows of the view: a start follows what makes it room."""
    stopped: list[int] = []
    for i in range(int(log.n[0])):
        row = int(live.jobs[log.job[i]])
        if log.kind[i] == PlanChange.STOP:
            stopped.append(row)
        else:
            yield from ((each, row) for each in stopped)
            stopped = []


@dataclass(frozen=True, slots=True, kw_only=True)
class _Started:
    """A job (its row) that starts on GPUs (theirs), some of which others (theirs) free first."""

    row: int
    gpus: tuple[int, ...]
    after: tuple[int, ...]


def _starts(live: LiveQueueState, log: ChangeLog, view: ClusterView) -> Iterator[_Started]:
    """Choose GPUs on the nodes of the plan: the first that are free, or were freed, by then."""
    owner, alloc = view.gpus.owner, live.alloc
    pools: dict[int, list[int]] = {}
    for gpu in np.flatnonzero(live.free).tolist():
        pools.setdefault(int(live.place[gpu]), []).append(gpu)
    for i in range(int(log.n[0])):
        job = int(log.job[i])
        row = int(live.jobs[job])
        if log.kind[i] == PlanChange.STOP:
            for gpu in np.flatnonzero(owner == row).tolist():
                pools.setdefault(int(live.place[gpu]), []).append(gpu)
            continue
        gpus: list[int] = []
        slot = int(alloc.slot[job])
        for k in range(int(alloc.slot_n[slot])):
            pool, count = pools[int(alloc.slot_node[slot, k])], int(alloc.slot_gpus[slot, k])
            gpus += pool[:count]
            del pool[:count]
        freed = dict.fromkeys(int(owner[gpu]) for gpu in gpus if owner[gpu] >= 0)
        yield _Started(row=row, gpus=tuple(gpus), after=tuple(freed))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Maker:
    """Makes decisions of one policy about one view."""

    name: str
    view: ClusterView
    reasons: Reasons

    def start(self, started: _Started, preempted: Mapping[int, Decision]) -> Decision:
        view, row = self.view, started.row
        job = view.details[view.job_id(row)]
        gpus = tuple(view.gpu_id(gpu) for gpu in started.gpus)
        after = tuple(view.job_id(other) for other in started.after)
        return self._decision(
            row,
            action=(Resume if job.past.stops else Start)(job=job.id, gpus=gpus),
            after=tuple(preempted[other].id for other in started.after if other in preempted),
            because=self.reasons.start(row, after),
            expects=self._put_to_work(row, len(gpus)),
        )

    def preempt(self, row: int, taker: JobId) -> Decision:
        view = self.view
        job = view.details[view.job_id(row)]
        cost = -float(view.jobs.save_s[row] + view.jobs.restore_s[row]) * len(job.gpus)
        return self._decision(
            row,
            action=Preempt(job=job.id, gpus=job.gpus),
            because=self.reasons.stop(row, taker),
            expects=Expectation(low=cost, mid=cost, high=cost),
        )

    def _put_to_work(self, row: int, gpus: int) -> Expectation:
        """Return the GPU-seconds at work by the check: less where the job ends before."""
        left = self.view.forecast(About.JOBS, RUN_LEFT_S)
        if left is None:
            return Expectation(**dict.fromkeys(("low", "mid", "high"), gpus * CHECK_AFTER_S))
        low, mid, high = (
            gpus * float(np.fmin(column[row], CHECK_AFTER_S))
            for column in (left.low, left.mid, left.high)
        )
        return Expectation(low=low, mid=mid, high=high)

    def _decision(
        self,
        row: int,
        *,
        action: Start | Resume | Preempt,
        because: str,
        expects: Expectation,
        after: tuple[DecisionId, ...] = (),
    ) -> Decision:
        view = self.view
        parts = (self.name, action.type, action.job, *action.gpus, view.t_s)
        return Decision(
            id=DecisionId(stable_id("d", *parts)),
            t_s=view.t_s,
            policy=self.name,
            action=action,
            because=because,
            forecasts=self.reasons.forecasts(row),
            expects=expects,
            check_after_s=CHECK_AFTER_S,
            tenant=view.details[action.job].tenant,
            after=after,
        )
