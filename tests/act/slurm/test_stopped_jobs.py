"""A stopped job rests, and goes on when whom it was stopped for runs."""

from __future__ import annotations

from dataclasses import replace

from factories import preempt, start
from steward.act.slurm.stopped_jobs import KEPT_S, StoppedJobs
from steward.clients.slurm.job_mark import JobMark
from steward.clients.slurm.queue_entry import QueueEntry
from steward.model.decision import Decision
from steward.model.identity import DecisionId

STOP = preempt(job="7")


def starts_after(*stops: str) -> Decision:
    return replace(start(job="9"), after=tuple(map(DecisionId, stops)))


def entry(id_: str = "7", *, submit_s: int = 1000) -> QueueEntry:
    return QueueEntry(
        id=id_,
        address=id_,
        state="PENDING",
        reason="BeginTime",
        user="ada",
        partition="gpu",
        submit_s=submit_s,
        restarts=1,
        batch=True,
        requeue=True,
        nice=0,
        priority=100,
        nodes=(),
        name="train",
        mark=JobMark.read(""),
    )


def test_a_job_rests_from_when_its_nodes_were_free() -> None:
    jobs = StoppedJobs()
    jobs.note(STOP, entry(), 1002.0)
    jobs.note(STOP, entry(), 1004.0)  # the decision is looked at again

    assert [jobs.rest_s(entry(), t_s) for t_s in (1002.0, 1003.5, 1007.0, 1100.0)] == [5, 4, 0, 0]


def test_how_long_a_job_rests_is_not_known_after_a_stop_by_somebody_else() -> None:
    jobs = StoppedJobs()
    jobs.note(STOP, entry(), 1002.0)

    assert jobs.rest_s(entry(submit_s=1050), 1051.0) is None
    assert jobs.rest_s(entry("8"), 1051.0) is None


def test_a_start_lets_those_that_were_stopped_for_it_go_on_once() -> None:
    jobs = StoppedJobs()
    jobs.note(STOP, entry(), 1002.0)
    jobs.note(preempt("d-other", job="8"), entry("8"), 1002.0)
    begins = starts_after(STOP.id, "d-unknown")

    assert jobs.made_room(begins) == ("7",)
    assert jobs.made_room(begins) == ()


def test_a_job_that_is_stopped_again_rests_again() -> None:
    jobs = StoppedJobs()
    jobs.note(STOP, entry(), 1002.0)
    jobs.note(preempt("d-again", job="7"), entry(submit_s=1020), 1022.0)

    assert jobs.rest_s(entry(submit_s=1020), 1023.0) == 4
    assert jobs.made_room(starts_after("d-again")) == ("7",)


def test_stops_are_forgotten_when_slurm_lets_jobs_go_on_itself() -> None:
    jobs = StoppedJobs()
    jobs.note(STOP, entry(), 1002.0)
    jobs.note(preempt("d-later", job="8"), entry("8"), 1002.0 + KEPT_S)

    assert jobs.rest_s(entry(), 1002.0 + KEPT_S) is None
    assert jobs.made_room(starts_after(STOP.id)) == ()
