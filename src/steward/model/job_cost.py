"""What a job has cost in GPU time, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from steward.model.identity import JobId
from steward.model.managed_job import Attempt, LifeState, ManagedJob

__all__ = ["JobCost", "LoanSpan", "cost_of", "total_cost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoanSpan:
    """GPUs that one job had of another. `until_s` is None while it lasts, as far as is known."""

    owner: JobId
    borrower: JobId
    gpus: int
    since_s: float
    until_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCost:
    """GPU-seconds. Paid = productive + lost + unsaved.

    `productive` work is in a checkpoint, or the job finished. `lost` work was over without either;
    `unsaved` is what a running job would lose now. A job that saves without being asked tells
    nobody: its work counts as saved only by the checkpoints that were asked for. `lent` is what
    others had of its GPUs, `borrowed` what it had of others'.
    """

    paid_gpu_s: float = 0.0
    productive_gpu_s: float = 0.0
    lost_gpu_s: float = 0.0
    unsaved_gpu_s: float = 0.0
    lent_gpu_s: float = 0.0
    borrowed_gpu_s: float = 0.0


def cost_of(job: ManagedJob, now_s: float, loans: Iterable[LoanSpan] = ()) -> JobCost:
    """Add up the attempts of a job, and the loans that it had a part in."""
    over_s = job.events[-1].t_s if job.state.ended else now_s
    lent = borrowed = 0.0
    for each in loans:
        until_s = over_s if each.until_s is None else min(each.until_s, over_s)
        gpu_s = each.gpus * max(until_s - each.since_s, 0.0)
        lent += gpu_s if each.owner == job.id else 0.0
        borrowed += gpu_s if each.borrower == job.id else 0.0
    shared = JobCost(lent_gpu_s=lent, borrowed_gpu_s=borrowed)
    return total_cost([shared, *(_attempt_cost(job, each, now_s) for each in job.attempts)])


def total_cost(costs: Iterable[JobCost]) -> JobCost:
    """Add up costs."""
    found = list(costs)
    names = [each.name for each in fields(JobCost)]
    return JobCost(**{name: sum(getattr(each, name) for each in found) for name in names})


def _attempt_cost(job: ManagedJob, attempt: Attempt, now_s: float) -> JobCost:
    runs = attempt.ended_s is None
    end_s = max(now_s if attempt.ended_s is None else attempt.ended_s, attempt.began_s)
    finished = job.state is LifeState.FINISHED and attempt.number == job.attempts[-1].number
    kept_s = end_s if finished else _saved_s(job, attempt, end_s)
    gpus = len(attempt.gpus)
    rest = gpus * (end_s - kept_s)
    return JobCost(
        paid_gpu_s=gpus * (end_s - attempt.began_s),
        productive_gpu_s=gpus * (kept_s - attempt.began_s),
        lost_gpu_s=0.0 if runs else rest,
        unsaved_gpu_s=rest if runs else 0.0,
    )


def _saved_s(job: ManagedJob, attempt: Attempt, end_s: float) -> float:
    """Return until when the work of an attempt is in its newest checkpoint."""
    times = [each.t_s - each.seconds for each in job.checkpoints if each.attempt == attempt.number]
    return min(max((attempt.began_s, *times)), end_s)
