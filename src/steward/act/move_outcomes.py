"""Measures moves and changes of size: how long the job stood still, and what it held afterwards."""

from __future__ import annotations

from steward.act.job_outcomes import JobCase, JobCases, job_outcome
from steward.model.actions import Action, Migrate, Resize
from steward.model.identity import JobId
from steward.model.job import Job, JobState
from steward.model.outcome import Interval, Outcome
from steward.model.view import ClusterView
from steward.model.yardstick import RUN, STOP_COST

__all__ = ["MoveOutcomes", "ResizeOutcomes"]


class MoveOutcomes(JobCases[Migrate]):
    """What it cost to save a job, to repeat what was lost, and to start it elsewhere."""

    def _measured(self, action: Action) -> Migrate | None:
        return action if isinstance(action, Migrate) else None

    def _look(
        self, case: JobCase[Migrate], view: ClusterView, gone: dict[JobId, Job]
    ) -> Outcome | None:
        action = case.action
        job = gone.get(action.job) or view.details.get(action.job)
        late = view.t_s >= case.from_s + case.decision.check_after_s
        runs = job is not None and job.state is JobState.RUNNING
        moved = job is not None and runs and {*job.gpus} != {*action.source}
        over = job is None or job.state.ended
        if not (moved or over or late):
            return None
        lines = [] if job is None else [line for line in job.history if line.t_s >= case.from_s]
        lost_s = sum(line.lost_s for line in lines)
        restore_s = job.checkpointing.restore_s if job is not None and moved else 0.0
        since_s = max((line.t_s for line in lines if moved), default=view.t_s)
        still_s = max(0.0, since_s - case.from_s)
        gpus = len(action.source)
        cost = (still_s + lost_s + restore_s) * gpus
        half = case.step_s * gpus
        what = "it ran elsewhere" if moved else "it had ended" if over else "it was not elsewhere"
        text = f"{what} after {still_s:.0f} s; {lost_s:.0f} s of work is lost"
        gained = Interval(low=-cost - half, mid=-cost, high=min(0.0, -cost + half))
        return job_outcome(case, view, gained, yardstick=STOP_COST, text=text)


class ResizeOutcomes(JobCases[Resize]):
    """How much GPU time a job with another size has held by the check."""

    def _measured(self, action: Action) -> Resize | None:
        return action if isinstance(action, Resize) else None

    def _look(
        self, case: JobCase[Resize], view: ClusterView, gone: dict[JobId, Job]
    ) -> Outcome | None:
        job = gone.get(case.action.job) or view.details.get(case.action.job)
        check_s = case.from_s + case.decision.check_after_s
        until_s = min(view.t_s, check_s)
        if job is not None and job.end_s is not None:
            until_s = min(until_s, job.end_s)
        if job is not None and job.state is JobState.RUNNING:
            case.total += max(0.0, until_s - max(case.seen_s, case.from_s)) * len(job.gpus)
        over = job is None or job.state.ended
        if not over and view.t_s < check_s:
            return None
        half = case.step_s * len(case.action.then)
        gained = Interval(low=max(0.0, case.total - half), mid=case.total, high=case.total + half)
        text = f"{'it ended' if over else 'checked'}: it held {case.total / 3600:.2f} GPU-hours"
        return job_outcome(case, view, gained, yardstick=RUN, text=text)
