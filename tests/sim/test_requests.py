"""A world that leaves the scheduling to others: jobs start, stop and resume by request."""

from __future__ import annotations

from typing import Any

import pytest

from factories import decision
from steward.errors import PermanentError
from steward.model.actions import Drain, Preempt, Resume, Start, Undrain
from steward.model.decision import Decision
from steward.model.identity import GpuId, JobId, NodeId
from steward.model.job import JobState
from steward.sim.world import World

START_S = 1000.0
GPU = GpuId("n01/gpu0")


def starting(job: JobId, name: str = "d-start", *gpus: str) -> Decision:
    ids = tuple(GpuId(gpu) for gpu in gpus) or (GPU,)
    return decision(name, action=Start(job=job, gpus=ids))


def stopping(job: JobId, name: str = "d-stop") -> Decision:
    return decision(name, action=Preempt(job=job, gpus=(GPU,)))


def idle_world(stage: Any, **more: Any) -> World:
    world: World = stage.world(starts_jobs=False, **more)
    world.collect(START_S)
    return world


def test_jobs_wait_until_they_are_started(stage: Any) -> None:
    first = stage.job(("idle_allocated", 500.0))
    world = idle_world(stage)
    world.collect(START_S + 100)
    assert stage.state(world, first).state is JobState.QUEUED

    done = world.carry_out(starting(first), START_S + 100)
    again = world.carry_out(starting(first), START_S + 110)

    assert done == again
    assert done.result == "done"
    assert stage.state(world, first).gpus == (GPU,)
    assert world._engine.started == 1


def test_a_preempted_job_saves_itself_first_and_goes_on_where_it_was(stage: Any) -> None:
    first = stage.job(("idle_allocated", 500.0))
    world = idle_world(stage)
    world.carry_out(starting(first), START_S)

    begun = world.carry_out(stopping(first), START_S + 100)
    twice = world.carry_out(stopping(first, "d-other"), START_S + 105)
    saving = world.progress(stopping(first), START_S + 110)
    saved = world.progress(stopping(first), START_S + 125)
    resumed = world.carry_out(
        decision("d-resume", action=Resume(job=first, gpus=(GPU,))), START_S + 200
    )

    assert [each.result for each in (begun, twice, saving, saved)] == [
        "begun",
        "begun",
        "begun",
        "done",
    ]
    assert resumed.result == "done"
    assert stage.state(world, first).past.stops == 1
    assert stage.life(world, first).done_s(START_S + 200) == pytest.approx(100.0)


def test_a_start_that_does_not_fit_names_all_that_speaks_against_it(stage: Any) -> None:
    first, second = stage.job(("idle_allocated", 500.0)), stage.job(("idle_allocated", 500.0))
    world = idle_world(stage, gpus=2)
    world.carry_out(starting(first), START_S)

    for made, text in (
        (starting(second, "d-1"), "n01/gpu0 is in use"),
        (starting(second, "d-2", "n01/gpu1", "n09/gpu0"), "there is no n09/gpu0"),
        (starting(second, "d-3", "n01/gpu0", "n01/gpu1"), "needs 1 GPUs and would get 2"),
        (starting(first, "d-4"), "does not wait"),
        (starting(JobId("99"), "d-5"), "does not wait"),
    ):
        with pytest.raises(PermanentError, match=text):
            world.carry_out(made, START_S)


def test_nothing_starts_on_a_drained_node_until_it_is_back(stage: Any) -> None:
    first = stage.job(("idle_allocated", 500.0))
    world = idle_world(stage)
    node = NodeId("n01")
    drain = decision("d-drain", action=Drain(node=node, gpus=(GPU,)))
    back = decision("d-back", action=Undrain(node=node, gpus=(GPU,)))

    world.carry_out(drain, START_S)
    assert world.collect(START_S + 10).draining == {node: True}
    with pytest.raises(PermanentError, match="broken or draining"):
        world.carry_out(starting(first), START_S + 10)
    world.carry_out(back, START_S + 20)

    assert world.collect(START_S + 30).draining == {node: False}
    assert world.carry_out(starting(first, "d-2"), START_S + 30).result == "done"


def test_a_cluster_that_starts_jobs_itself_leaves_drained_nodes_alone(stage: Any) -> None:
    first = stage.job(("idle_allocated", 500.0), at_s=START_S + 50)
    world: World = stage.world()
    world.carry_out(
        decision("d-drain", action=Drain(node=NodeId("n01"), gpus=(GPU,))), START_S + 10
    )

    world.collect(START_S + 100)

    assert stage.state(world, first).state is JobState.QUEUED


def test_what_cannot_be_stopped_is_refused(stage: Any) -> None:
    first, stuck = (
        stage.job(("idle_allocated", 500.0)),
        stage.job(("idle_allocated", 9.0), able=False),
    )
    world = idle_world(stage, gpus=2)
    world.carry_out(starting(stuck, "d-1", "n01/gpu1"), START_S)

    for job in (first, stuck, JobId("99")):
        with pytest.raises(PermanentError, match="can't be preempted"):
            world.carry_out(stopping(job, f"d-stop-{job}"), START_S)
    with pytest.raises(PermanentError, match="knows nothing of it"):
        world.progress(stopping(first, "d-other-world"), START_S)
    with pytest.raises(PermanentError, match="there is no node n77"):
        world.carry_out(decision("d-n", action=Drain(node=NodeId("n77"), gpus=())), START_S)
