from __future__ import annotations

from dataclasses import replace

import pytest

from factories import job
from steward.model.job import JobState, Past

RUNS, WAITS, DONE = JobState.RUNNING, JobState.QUEUED, JobState.COMPLETED


def test_a_job_that_never_ran_has_waited_since_it_was_submitted() -> None:
    assert job("j1", submit_s=5.0).past == Past(ran_s=0.0, stops=0, queued_s=5.0, began_s=None)


def test_stretches_add_up_and_work_that_was_lost_does_not_count() -> None:
    made = job("j1", submit_s=5.0).changed(5.0, WAITS, "submitted")
    made = made.changed(10.0, RUNS, "started").changed(110.0, WAITS, "made room")
    made = made.changed(200.0, RUNS, "started").changed(250.0, WAITS, "broke", lost_s=20.0)

    assert made.past == Past(ran_s=130.0, stops=2, queued_s=250.0, began_s=200.0)


def test_a_stretch_that_goes_on_is_not_counted_yet_whoever_holds_the_gpus() -> None:
    made = job("j1").changed(10.0, RUNS, "borrows").changed(60.0, RUNS, "holds them now")

    assert made.past == Past(ran_s=0.0, stops=0, queued_s=0.0, began_s=10.0)


@pytest.mark.parametrize("told", [True, False], ids=["with a history", "without"])
def test_an_ended_job_has_run_from_start_to_end(told: bool) -> None:  # noqa: FBT001 - a case
    made = replace(job("j1", on=["n1/gpu0"], start_s=100.0), end_s=400.0, state=DONE)
    if told:
        made = made.changed(100.0, RUNS, "started").changed(400.0, DONE, "done")

    assert made.past.ran_s == 300.0
    assert made.past.began_s == 100.0


def test_a_history_that_misses_the_end_is_completed_by_it() -> None:
    made = replace(job("j1").changed(100.0, RUNS, "started"), end_s=150.0, state=DONE)

    assert made.past.ran_s == 50.0
