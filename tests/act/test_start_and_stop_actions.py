"""What must hold for starting and stopping a job, and what the two actions say of themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from factories import (
    SAVES,
    call_back,
    decision,
    job,
    loan,
    moment,
    node,
    preempt,
    start,
    view,
)
from steward.act.actuators.dry_run import DryRun
from steward.act.guard import Guard, Limits
from steward.model.actions import Start
from steward.model.cluster import Health
from steward.model.decision import (
    Autonomy,
    Ruling,
)
from steward.model.event import Observation
from steward.model.identity import GpuId
from steward.model.job import Checkpointing, JobShape
from steward.model.view import ClusterView
from steward.sim.scenario import demo
from steward.sim.world import World

GPU, OTHER = "n1/gpu0", "n1/gpu1"


def sick(health: Health) -> ClusterView:
    made = moment(node(), jobs=[job("j2")])
    made.fold(Observation(health={GpuId(GPU): health}))
    return made.view(1000.0)


@pytest.mark.parametrize(
    ("seen", "broken"),
    [
        (view(jobs=[job("j1")]), "j2 is not waiting any more"),
        (view(jobs=[job("j2", on=[OTHER])]), "j2 is not waiting any more"),
        (view(node("n2"), jobs=[job("j2")]), "not in the cluster"),
        (view(jobs=[job("j2", shape=JobShape(gpus=2))]), "j2 asks for 2 GPUs now"),
        (sick(Health.BAD), "not healthy"),
        (sick(Health.UNKNOWN), "not healthy"),
        (sick(Health.WORN), ""),
        (view(jobs=[job("j1", on=[GPU]), job("j2")]), "in use"),
        (view(jobs=[job("j2")]), ""),
    ],
)
def test_a_start_needs_a_waiting_job_and_free_gpus(seen: ClusterView, broken: str) -> None:
    found = start().action.unmet(seen)

    assert broken in found
    assert bool(found) == bool(broken)


@pytest.mark.parametrize(
    ("seen", "broken"),
    [
        (view(jobs=[job("j2")]), "j1 is not running any more"),
        (view(jobs=[job("j1")]), "j1 is not running any more"),
        (view(jobs=[job("j1", on=[GPU], checkpointing=Checkpointing())]), "cannot save its work"),
        (view(jobs=[job("j1", on=[OTHER])]), "holds other GPUs now"),
        (
            view(jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])], loans=[loan()]),
            "lends or borrows GPUs now",
        ),
        (view(jobs=[job("j1", on=[GPU], checkpointing=SAVES)]), ""),
    ],
)
def test_only_who_runs_and_can_save_itself_is_preempted(seen: ClusterView, broken: str) -> None:
    found = preempt().action.unmet(seen)

    assert broken in found
    assert bool(found) == bool(broken)


def test_starts_and_disturbances_have_budgets_of_their_own() -> None:
    guard = Guard(
        Limits(autonomy=Autonomy.AUTO, disturbed_gpus_per_hour=1, started_gpus_per_hour=2)
    )
    seen = view(jobs=[job("j1", on=[GPU]), job("j2")])
    guard.record(start("d-1"), 1000.0)
    guard.record(start("d-2"), 1000.0)

    full = guard.judge(start("d-3", gpus=(OTHER,)), seen)

    assert guard.judge(preempt(), seen).ruling is Ruling.GO
    assert full.ruling is Ruling.HOLD
    assert "2 of 2 GPUs an hour to start on are used up" in full.why


def test_moves_are_not_returns_and_need_autonomy() -> None:
    seen = view(jobs=[job("j2")])

    assert not start().returns
    assert not preempt().returns
    assert Guard(Limits()).judge(start(), seen).ruling is Ruling.ADVISE
    assert Guard(Limits(autonomy=Autonomy.AUTO)).judge(start(), seen).ruling is Ruling.GO
    assert call_back(decision()).action.affects == "j1"
    assert call_back(decision()).action.acts_on == "j2"


def test_actions_describe_themselves() -> None:
    assert start().action.sentence == "Start job j2 on 1 GPU"
    assert preempt().action.sentence.startswith("Save job j1, free its 1 GPU")
    assert "Start job j2 on 1 GPU" in DryRun().carry_out(start(), 1000.0).text


def test_a_cluster_with_a_scheduler_of_its_own_does_not_start_jobs() -> None:
    own, ours = (
        World(replace(demo(), starts_jobs=starts, initial_jobs=0), seed=1, start_s=1_000_000.0)
        for starts in (True, False)
    )

    assert Start not in own.actions()
    assert Start in ours.actions()
