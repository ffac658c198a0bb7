from __future__ import annotations

from dataclasses import replace

import pytest

from factories import H200, job, node, view
from live_views import with_beliefs
from steward.decide.scheduling.grow_into_idle import GrowIntoIdle
from steward.model.actions import Resize
from steward.model.identity import GpuId, JobId
from steward.model.job import Checkpointing, Job, JobShape
from steward.model.view import ClusterView

GPUS = tuple(GpuId(f"n1/gpu{index}") for index in range(4))
ELASTIC = JobShape(gpus=1, max_gpus=3)
RUNS = replace(job("j1", on=GPUS[:1]), shape=ELASTIC)


def seen(*jobs: Job, left_s: float | None = 36_000.0) -> ClusterView:
    nodes = (node("n1", 4), node("n2", 2))
    return with_beliefs(view(*nodes, jobs=jobs or (RUNS,), t_s=1000.0), left_s=left_s)


def test_a_job_that_may_have_more_gpus_takes_free_ones_of_its_node() -> None:
    (made,) = GrowIntoIdle().decide(seen())

    assert made.action == Resize(job=JobId("j1"), now=GPUS[:1], then=GPUS[:3])
    assert "nobody waits for 2 free GPUs beside the 1 of job j1, which may have 3" in made.because
    assert "about 368 min sooner" in made.because
    assert [each.quantity for each in made.forecasts] == ["run.left_s"]
    assert made.undo == Resize(job=JobId("j1"), now=GPUS[:3], then=GPUS[:1])
    assert GrowIntoIdle().decide(seen()) == (made,)


def test_those_that_run_longest_come_first_and_none_takes_what_another_does() -> None:
    other = replace(job("j2", on=GPUS[1:2]), shape=ELASTIC)
    at = with_beliefs(
        view(node("n1", 4), jobs=(RUNS, other)), left_s={"j1": 3600.0, "j2": 36_000.0}
    )

    made = GrowIntoIdle().decide(at)

    assert [each.action.acts_on for each in made] == ["j2"]


@pytest.mark.parametrize(
    "at",
    [
        seen(RUNS, job("j2")),
        seen(replace(RUNS, shape=JobShape(gpus=1))),
        seen(replace(RUNS, start_s=500.0)),
        seen(replace(RUNS, checkpointing=Checkpointing())),
        seen(left_s=None),
        seen(left_s=300.0),
        seen(RUNS, job("j2", on=GPUS[1:])),
        seen(replace(RUNS, gpus=(GpuId("n9/gpu0"),))),
    ],
    ids=[
        "a job waits",
        "it may not have more",
        "it has just begun",
        "it cannot save",
        "how long it runs for is unknown",
        "it is nearly done",
        "nothing is free on its node",
        "its GPU has left the cluster",
    ],
)
def test_a_job_stays_as_it_is(at: ClusterView) -> None:
    assert GrowIntoIdle().decide(at) == ()


def test_other_gpus_than_it_has_are_not_added() -> None:
    mixed = node("n1", 1), node("n2", 2, model=replace(H200, name="t4"))
    at = with_beliefs(view(*mixed, jobs=(RUNS,)))

    assert GrowIntoIdle().decide(at) == ()
