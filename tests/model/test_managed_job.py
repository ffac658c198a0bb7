from __future__ import annotations

from dataclasses import replace

import pytest

from managed_jobs import attempt, managed, spec
from steward.errors import StewardError
from steward.model.identity import GpuId, NodeId
from steward.model.job import JobState
from steward.model.managed_job import TRANSITIONS, LifeState, ManagedJob, job_of

NODE = NodeId("n1")


def at(*states: LifeState) -> ManagedJob:
    job = managed(spec()).with_attempt(attempt())
    for t_s, state in enumerate(states, 2):
        job = job.moved(float(t_s), state, state.value)
    return job


RUN = (LifeState.WAITING, LifeState.STARTING, LifeState.RUNNING)


def test_every_state_has_its_transitions_and_ends_have_none() -> None:
    assert set(TRANSITIONS) == set(LifeState)
    assert all(bool(TRANSITIONS[state]) != state.ended for state in LifeState)


def test_a_transition_that_is_not_in_the_table_is_refused_with_those_that_are() -> None:
    with pytest.raises(StewardError, match="submitted and cannot become running") as caught:
        at(LifeState.RUNNING)
    assert caught.value.hint == "possible now: cancelled, held, waiting"

    with pytest.raises(StewardError) as caught:
        at(*RUN, LifeState.FINISHED, LifeState.WAITING)
    assert "nothing, it is over" in caught.value.hint


def test_time_that_goes_back_leaves_the_order_of_events() -> None:
    job = at(*RUN).moved(0.5, LifeState.FINISHED, "done")

    assert job.events[-1].t_s == job.events[-2].t_s


@pytest.mark.parametrize(
    ("states", "seen", "held"),
    [
        ((), JobState.QUEUED, True),
        ((LifeState.WAITING,), JobState.QUEUED, False),
        ((LifeState.HELD,), JobState.QUEUED, True),
        (RUN[:2], JobState.RUNNING, False),
        (RUN, JobState.RUNNING, False),
        ((*RUN, LifeState.SAVING), JobState.RUNNING, False),
        ((*RUN, LifeState.PREEMPTED), JobState.QUEUED, False),
        ((*RUN, LifeState.FINISHED), JobState.COMPLETED, False),
        ((*RUN, LifeState.FAILED), JobState.FAILED, False),
        ((*RUN, LifeState.CANCELLED), JobState.CANCELLED, False),
    ],
)
def test_policies_see_each_state_as_one_of_theirs(
    states: tuple[LifeState, ...],
    seen: JobState,
    held: bool,  # noqa: FBT001
) -> None:
    job = job_of(at(*states), NODE)

    assert (job.state, job.held) == (seen, held)
    assert bool(job.nodes) == (seen is JobState.RUNNING)
    assert (job.end_s is not None) == seen.ended


def test_a_preempted_job_counts_as_stopped_once() -> None:
    job = job_of(at(*RUN, LifeState.SAVING, LifeState.PREEMPTED), NODE)

    assert job.past.stops == 1
    assert job.gpus == ()


def test_a_job_holds_its_gpus_from_its_start_to_its_end() -> None:
    assert managed(spec()).gpus == ()
    assert at(*RUN[:2]).gpus == attempt().gpus
    assert at(*RUN, LifeState.FINISHED).gpus == ()


def test_a_job_that_is_being_moved_holds_where_it_is_and_where_it_goes() -> None:
    there = (GpuId("n1/cpu1"), GpuId("n1/cpu0"))
    moving = replace(attempt(), stop="move", next_gpus=there)
    job = at(*RUN, LifeState.SAVING).with_attempt(moving)

    seen = job_of(job, NODE)

    assert moving.saves_and_stops
    assert job.gpus == seen.gpus == ("n1/cpu0", "n1/cpu1")
    assert seen.shape.gpus == 1  # until it runs there
    given_up = replace(moving, stop="")
    assert job.with_attempt(given_up).gpus == ("n1/cpu0",)


def test_a_resized_job_is_seen_with_what_it_has_and_asks_for_what_was_submitted() -> None:
    wide = attempt(gpus=("n1/cpu0", "n1/cpu1"))
    job = at(*RUN).with_attempt(wide)

    assert job_of(job, NODE).shape.gpus == 2
    assert job_of(job.moved(9.0, LifeState.PREEMPTED, "room"), NODE).shape.gpus == 1


def test_a_note_is_kept_once_and_names_its_attempt() -> None:
    note = (("output was dropped", ""),)
    job = at(*RUN).noted(5.0, note)

    assert job.noted(6.0, note) is job
    assert [(each.t_s, each.attempt) for each in job.notes] == [(5.0, 1)]
    assert managed(spec()).noted(1.0, note).notes[0].attempt == 0


def test_the_exit_status_is_that_of_a_shell() -> None:
    failed = at(*RUN, LifeState.FAILED)

    assert at(*RUN).exit_code is None
    assert at(*RUN, LifeState.FINISHED).exit_code == 0
    assert failed.exit_code == 1
    assert failed.with_attempt(replace(attempt(), exit_code=7)).exit_code == 7
    assert failed.with_attempt(replace(attempt(), exit_code=0)).exit_code == 1
    assert failed.with_attempt(replace(attempt(), signal=9)).exit_code == 137
    assert managed(spec()).moved(2.0, LifeState.CANCELLED, "no").exit_code == 1
    assert managed(spec()).attempt is None
