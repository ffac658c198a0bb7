"""What rank each job of a view has by a policy's law, from what can be seen and believed live."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.decide.scheduling.classes import class_weights
from steward.decide.scheduling.ranking import ABOUT_TO_END_GPU_S, Law, Ranking
from steward.model.forecast import (
    RUN_LEFT_S,
    RUN_RANK_ALL_GPU_S,
    RUN_RANK_GPU_S,
    RUN_TYPICAL_S,
    RUN_USES_GPU_S,
    About,
)
from steward.model.job import Job, JobState
from steward.model.view import RUNNING, ClusterView

__all__ = ["Ranks", "believed_quantity", "ranks_of", "urgent"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# The forecast that stands in for what is not known live
_BELIEVED = {
    Law.DURATION: RUN_LEFT_S,
    Law.REMAINING: RUN_LEFT_S,
    Law.PREDICTED: RUN_USES_GPU_S,
    Law.EXPERIENCE: RUN_RANK_GPU_S,
}


def believed_quantity(ranking: Ranking) -> str:
    """Return the forecast that a policy's ranks rest on; "": they rest on none."""
    if ranking.law is Law.EXPERIENCE and not ranking.similar:
        return RUN_RANK_ALL_GPU_S
    return _BELIEVED.get(ranking.law, "")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranks:
    """One row per job of the view."""

    key: Floats  # smaller goes first
    attained_s: Floats  # run time so far
    since_s: Floats  # when it came to this key, or last began to run
    by_running: Bools  # it came to this key while it ran, not by a start
    falls: Bools  # it runs, and came to this key at this very instant
    fell: Bools  # it came to the key that it last waited with when it was stopped


def ranks_of(ranking: Ranking, view: ClusterView) -> Ranks:
    """Rank all jobs. Who has no forecast goes by the service that it has attained."""
    jobs = view.jobs
    runs = jobs.state == RUNNING
    stretch_s = np.where(runs, view.t_s - jobs.start_s, 0.0)
    attained_s = jobs.ran_s + np.maximum(np.nan_to_num(stretch_s), 0.0)
    size = jobs.gpus.astype(np.float64) if ranking.by_gpus else np.ones(len(jobs))
    began_s = np.where(np.isnan(jobs.began_s), jobs.start_s, jobs.began_s)
    if ranking.law is Law.LEVEL:
        return _levels(ranking, view, attained_s, size, began_s)
    return Ranks(
        key=_believed(ranking, view, attained_s, size),
        attained_s=attained_s,
        since_s=np.nan_to_num(began_s),
        by_running=np.zeros(len(jobs), bool),
        falls=np.zeros(len(jobs), bool),
        fell=np.zeros(len(jobs), bool),
    )


def _believed(ranking: Ranking, view: ClusterView, attained_s: Floats, size: Floats) -> Floats:
    if ranking.law is Law.ARRIVAL:
        return np.zeros(len(attained_s))
    column = view.forecast(About.JOBS, believed_quantity(ranking))
    if column is None:
        return attained_s * size
    if ranking.law is Law.EXPERIENCE:
        rank = _weighed(ranking, view, column.mid, attained_s)  # counts GPUs already
    elif ranking.law is Law.PREDICTED:
        rank = column.mid  # counts GPUs already
    elif ranking.law is Law.REMAINING:
        rank = column.mid * size
    else:
        rank = (column.mid + attained_s) * size
    return np.where(np.isnan(rank), attained_s * size, rank)


def _weighed(ranking: Ranking, view: ClusterView, rank: Floats, attained_s: Floats) -> Floats:
    """Let ranks count for class and long waiting; who may miss a deadline is about to end."""
    jobs = view.jobs
    waited_s = view.t_s - jobs.submit_s - attained_s
    rank = rank / class_weights(jobs.priority, ranking.class_weight)
    older = np.maximum(waited_s / ranking.old_s, 1.0)
    rank = rank / 2.0 ** np.floor(np.log2(older))  # as `age_factor` of the lab's ranks
    return np.where(urgent(ranking, view), ABOUT_TO_END_GPU_S, rank)


def urgent(ranking: Ranking, view: ClusterView) -> Bools:
    """Say which jobs will miss their deadline if they wait on, and can still make it."""
    left = view.forecast(About.JOBS, RUN_TYPICAL_S)
    due_s = view.jobs.deadline_s
    if left is None or not ranking.deadlines:
        return np.zeros(len(due_s), bool)
    near: Bools = (due_s - left.mid <= view.t_s) & (view.t_s < due_s)
    return near


def _levels(
    ranking: Ranking, view: ClusterView, attained_s: Floats, size: Floats, began_s: Floats
) -> Ranks:
    """Count the thresholds that each job's time or service has passed."""
    steps = np.asarray(ranking.thresholds)
    forgiven_s = _forgiven_s(ranking, view)
    counted = (attained_s - forgiven_s) * size
    level = np.searchsorted(steps, counted, side="right")
    runs = view.jobs.state == RUNNING
    last_s = np.where(runs, view.t_s, view.jobs.queued_s)
    passed = np.concatenate(([0.0], steps))[level]
    reached_s = np.where(level > 0, last_s - (counted - passed) / np.maximum(size, 1.0), -np.inf)
    began_s = np.nan_to_num(began_s)
    return Ranks(
        key=level.astype(np.float64),
        attained_s=attained_s,
        since_s=np.maximum(began_s, reached_s),
        by_running=runs & (reached_s > began_s),
        falls=runs & (view.jobs.start_s < view.t_s) & np.isin(counted, steps),
        fell=np.isin((view.jobs.ran_s - forgiven_s) * size, steps),
    )


def _forgiven_s(ranking: Ranking, view: ClusterView) -> Floats:
    """Return the run time that no longer counts, where long waits give a new start."""
    forgiven_s = np.zeros(len(view.jobs))
    if ranking.promote > 0.0:
        for row in np.flatnonzero(view.jobs.stops > 0).tolist():
            job = view.details[view.job_id(row)]
            size = job.shape.gpus if ranking.by_gpus else 1
            forgiven_s[row] = _new_start_s(job, view.t_s, ranking, ranking.thresholds[0] / size)
    return forgiven_s


def _new_start_s(job: Job, now_s: float, ranking: Ranking, least_s: float) -> float:
    """Return the run time before the last wait that was `promote` times as long as it."""
    ran_s = forgiven_s = 0.0
    began_s: float | None = None
    waits_s = job.submit_s
    for line in (*job.history, None):
        t_s = now_s if line is None else line.t_s
        counted_s = ran_s - forgiven_s
        starts = began_s is None and (line is None or line.state is JobState.RUNNING)
        if starts and counted_s >= least_s and t_s - waits_s >= ranking.promote * counted_s:
            forgiven_s = ran_s
        if line is not None and line.state is JobState.RUNNING:
            began_s = t_s if began_s is None else began_s
        elif line is not None and began_s is not None:
            ran_s += t_s - began_s - line.lost_s
            began_s, waits_s = None, t_s
    return forgiven_s
