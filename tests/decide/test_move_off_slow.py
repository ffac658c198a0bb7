from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from factories import finding, job, node, view
from live_views import with_beliefs
from steward.decide.health.move_off_slow import MoveOffSlow
from steward.model.actions import Migrate
from steward.model.finding import Finding
from steward.model.identity import GpuId, JobId
from steward.model.job import Checkpointing, Job, JobShape
from steward.model.treatment import Treatment
from steward.model.view import ClusterView

NODES = (node("n1"), node("n2"), node("n3"))
HOT = Treatment(action="drain", advice="see to its fans")
RUNS = job("j1", on=("n1/gpu0",))


def hot(place: str = "n1/gpu0", *gpus: str, treatment: Treatment | None = HOT) -> Finding:
    made = finding("j1", *(gpus or (place,)))
    return replace(made, subject=place, title="too hot", treatment=treatment)


def seen(*jobs: Job, found: tuple[Finding, ...] = (), **beliefs: Any) -> ClusterView:
    made = view(*NODES, jobs=jobs or (RUNS,)).with_findings(found or (hot(),))
    return with_beliefs(made, **beliefs)


def targets(at: ClusterView, policy: MoveOffSlow | None = None) -> list[tuple[GpuId, ...]]:
    made = (policy or MoveOffSlow()).decide(at)
    return [each.action.target for each in made if isinstance(each.action, Migrate)]


def test_a_job_that_is_measured_to_be_slower_moves_off_a_gpu_that_is_too_hot() -> None:
    at = seen(slower={"j1": 0.2})

    (made,) = MoveOffSlow().decide(at)

    assert isinstance(made.action, Migrate)
    assert (made.action.job, made.action.source) == (JobId("j1"), (GpuId("n1/gpu0"),))
    assert made.action.target == (GpuId("n1/gpu1"),)  # of its own node: the other GPU is cool
    assert "too hot, and job j1 is 20% slower by it (measured), about 120 min" in made.because
    assert (made.findings, made.expects.mid) == ((hot().id,), -50.0)
    assert [each.quantity for each in made.forecasts] == ["run.left_s", "run.slowdown_share"]
    assert made.undo == Migrate(
        job=JobId("j1"), source=made.action.target, target=made.action.source
    )
    assert MoveOffSlow().decide(at) == (made,)


def test_of_a_job_that_counts_no_steps_a_slowdown_is_taken_to_be_and_said() -> None:
    (made,) = MoveOffSlow().decide(seen())

    assert "10% slower by it (taken to be; nobody counts its steps)" in made.because
    assert MoveOffSlow(assumed_slowdown_share=0.0).decide(seen()) == ()


def test_where_a_whole_node_is_slow_none_of_its_gpus_is_taken() -> None:
    at = seen(found=(hot("n1", "n1/gpu0", "n1/gpu1"),))

    assert targets(at) == [("n2/gpu0",)]


def test_a_wide_job_keeps_the_node_that_is_well() -> None:
    wide = job("j1", on=("n1/gpu0", "n1/gpu1", "n2/gpu0", "n2/gpu1"))
    at = seen(wide, found=(hot("n1", *wide.gpus),))

    assert [{*each} for each in targets(at)] == [{"n2/gpu0", "n2/gpu1", "n3/gpu0", "n3/gpu1"}]


def test_a_move_has_to_be_worth_its_save_and_its_start() -> None:
    assert targets(seen(left_s=501.0, slower={"j1": 0.2})) != []
    assert targets(seen(left_s=500.0, slower={"j1": 0.2})) == []
    assert targets(seen(left_s=36_000.0, slower={"j1": 0.0})) == []


@pytest.mark.parametrize(
    "at",
    [
        seen(left_s=None),
        seen(left_s=np.nan),
        seen(replace(RUNS, checkpointing=Checkpointing())),
        seen(job("j1", on=("n2/gpu0",))),
        seen(job("j1")),
        seen(found=(hot(treatment=None),)),
        seen(found=(hot(treatment=replace(HOT, action="tell")),)),
        seen(found=(hot("job:j1", "n1/gpu0", "n1/gpu1"),)),
        seen(found=(hot("n9"),)),
        seen(RUNS, *(job(f"k{n}{g}", on=(f"n{n}/gpu{g}",)) for n in (2, 3) for g in (0, 1)),
             job("k11", on=("n1/gpu1",))),
        seen(replace(RUNS, shape=JobShape(gpus=1, gpu_models=("other",)))),
    ],
    ids=[
        "how long it runs for is not forecast",
        "how long it runs for is not known",
        "it cannot save",
        "it runs elsewhere",
        "it waits",
        "no rule says what to do",
        "a rule only tells",
        "the finding is about the job, not its GPUs",
        "the node is not in the cluster",
        "nothing is free",
        "other GPUs are not of its kind",
    ],
)  # fmt: skip
def test_a_job_stays_where_it_is(at: ClusterView) -> None:
    assert MoveOffSlow().decide(at) == ()


def test_a_node_that_drains_is_left_to_the_policy_for_that() -> None:
    at = seen()
    draining = np.array([True, False, False])

    assert targets(replace(at, nodes=replace(at.nodes, draining=draining))) == []


def test_gpus_of_which_something_is_open_and_jobs_that_are_reserved_stay() -> None:
    at = seen()
    jobs = replace(at.jobs, reserved=np.array([True]))
    gpus = replace(at.gpus, reserved=np.ones(6, bool))

    assert targets(replace(at, jobs=jobs)) == targets(replace(at, gpus=gpus)) == []


def test_two_jobs_do_not_take_the_same_gpu() -> None:
    jobs = (RUNS, job("j2", on=("n1/gpu1",)))
    at = seen(*jobs, found=(hot("n1", "n1/gpu0", "n1/gpu1"),))

    assert targets(at) == [("n2/gpu0",), ("n2/gpu1",)]
