from __future__ import annotations

from dataclasses import replace

from managed_jobs import attempt, managed, spec
from steward.model.identity import JobId
from steward.model.job_cost import JobCost, LoanSpan, cost_of, total_cost
from steward.model.managed_job import LifeState, ManagedJob, SavedState

TWO = ("n1/cpu0", "n1/cpu1")


def ran(*lengths: float | None, state: LifeState, saved: tuple[SavedState, ...] = ()) -> ManagedJob:
    """Return a job with an attempt on two GPUs for each length, 1,000 s apart; None: it runs."""
    job = managed(spec())
    for number, length_s in enumerate(lengths, start=1):
        began_s = 1000.0 * number
        ended_s = None if length_s is None else began_s + length_s
        made = replace(attempt(number, TWO), began_s=began_s, ended_s=ended_s)
        job = job.with_attempt(made)
    last = replace(job.events[-1], state=state)
    return replace(job, events=(*job.events, last), checkpoints=saved)


def saved(t_s: float, number: int, seconds: float = 0.0) -> SavedState:
    return SavedState(t_s=t_s, attempt=number, step=1, path="/x", seconds=seconds)


def test_a_job_that_finished_was_productive() -> None:
    cost = cost_of(ran(100.0, state=LifeState.FINISHED), 9e9)

    assert cost == JobCost(paid_gpu_s=200.0, productive_gpu_s=200.0)


def test_what_was_not_saved_before_a_job_failed_is_lost() -> None:
    job = ran(100.0, state=LifeState.FAILED, saved=(saved(1050.0, 1, seconds=10.0),))

    assert cost_of(job, 9e9) == JobCost(paid_gpu_s=200.0, productive_gpu_s=80.0, lost_gpu_s=120.0)


def test_an_attempt_that_was_repeated_is_lost_and_the_last_one_counts() -> None:
    cost = cost_of(ran(50.0, 100.0, state=LifeState.FINISHED), 9e9)

    assert cost == JobCost(paid_gpu_s=300.0, productive_gpu_s=200.0, lost_gpu_s=100.0)


def test_what_a_running_job_has_not_saved_is_not_lost_yet() -> None:
    job = ran(50.0, None, state=LifeState.RESUMED, saved=(saved(1050.0, 1), saved(2030.0, 2)))

    assert cost_of(job, 2100.0) == JobCost(
        paid_gpu_s=300.0, productive_gpu_s=160.0, unsaved_gpu_s=140.0
    )


def test_a_clock_that_was_set_back_costs_nothing_negative() -> None:
    assert cost_of(ran(None, state=LifeState.RUNNING), 0.0) == JobCost()


def test_costs_add_up() -> None:
    one = JobCost(paid_gpu_s=1.0, lent_gpu_s=2.0)

    assert total_cost([one, one]) == JobCost(paid_gpu_s=2.0, lent_gpu_s=4.0)
    assert total_cost([]) == JobCost()


def test_what_was_lent_and_borrowed_counts_until_it_was_called_back_or_the_job_ended() -> None:
    job = ran(100.0, state=LifeState.RUNNING)
    loans = [
        LoanSpan(owner=job.id, borrower=JobId("7"), gpus=2, since_s=10.0, until_s=20.0),
        LoanSpan(owner=JobId("7"), borrower=job.id, gpus=1, since_s=10.0),
        LoanSpan(owner=JobId("7"), borrower=JobId("8"), gpus=1, since_s=10.0),
    ]

    cost = cost_of(job, 40.0, loans)

    assert (cost.lent_gpu_s, cost.borrowed_gpu_s) == (20.0, 30.0)
    ended = ran(100.0, state=LifeState.FINISHED)  # at 1 s: before any of it
    assert cost_of(ended, 40.0, loans).borrowed_gpu_s == 0.0
