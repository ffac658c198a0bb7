from dataclasses import replace

import pytest

from steward.errors import StewardError
from steward.model.identity import TenantId
from steward.model.job import Tenant
from steward.sim.scenario import Group, Scenario, demo, sized
from steward.sim.world import World


def test_all_that_is_wrong_with_a_scenario_is_said_at_once() -> None:
    twice = Group(tenant=Tenant(id=TenantId("a"), guaranteed_gpus=9), demand=0.0)

    with pytest.raises(StewardError) as wrong:
        Scenario(name="bad", groups=(twice, twice), nodes=0, warm_up_s=-1.0)

    assert str(wrong.value) == (
        "scenario bad: nodes is 0, not above 0; warm_up_s is -1.0, not 0 or more; "
        "tenant a is there twice; group a has demand 0.0 and 6 users; "
        "group a has demand 0.0 and 6 users; 18 GPUs are guaranteed, but there are 0"
    )
    assert "demo()" in wrong.value.hint


def test_a_number_that_is_not_one_is_refused() -> None:
    with pytest.raises(StewardError, match="sample_every_s is nan, not above 0"):
        replace(demo(), sample_every_s=float("nan"))


def test_a_gpu_cannot_fail_before_the_start() -> None:
    with pytest.raises(StewardError, match=r"first_failure_s is -1\.0, not 0 or more"):
        replace(demo(), first_failure_s=-1.0)


def test_the_demo_is_eight_nodes_of_eight_gpus_and_five_tenants() -> None:
    scenario = demo()

    assert scenario.gpus == 64
    assert [group.tenant.id for group in scenario.groups] == [
        "bio",
        "chem",
        "nlp",
        "teaching",
        "vision",
    ]


@pytest.mark.parametrize(("gpus", "jobs"), [(64, 150), (256, 500)])
def test_a_sized_world_has_about_that_many_gpus_and_jobs(gpus: int, jobs: int) -> None:
    world = World(sized(gpus, jobs), start_s=1.8e9)

    truth = world.truth()

    assert world.scenario.gpus == gpus
    assert truth.queued + truth.running == pytest.approx(jobs, rel=0.15)
