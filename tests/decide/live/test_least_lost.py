"""Of borrowers of equal rank, the one that loses least by its stop makes room."""

from __future__ import annotations

import pytest

from factories import job, node, view
from steward.decide.scheduling.tenant_sharing.commons import Commons
from steward.model.identity import TenantId
from steward.model.job import Checkpointing, Job, JobShape, Tenant
from steward.model.yielding import Yielding

OWNER = Tenant(id=TenantId("owner"), guaranteed_gpus=2)
WAITS = job("waits", tenant=OWNER.id, shape=JobShape(gpus=2), submit_s=990.0)


def borrower(
    name: str, *, save_s: float = 60.0, start_s: float = 0.0, saved_s: float | None = None
) -> Job:
    """Return a job that fills the node of its own name."""
    return job(
        name,
        on=[f"{name}/gpu0", f"{name}/gpu1"],
        start_s=start_s,
        checkpointing=Checkpointing(able=True, save_s=save_s),
        yielding=Yielding(saved_s=saved_s),
    )


def stopped(*borrowers: Job) -> list[str]:
    nodes = [node(each.id) for each in borrowers]
    others = Tenant(id=TenantId("a"))
    seen = view(*nodes, jobs=[*borrowers, WAITS], of=(OWNER, others))  # all their stops are dear
    made = Commons().decide(seen)
    return [str(each.action.acts_on) for each in made if each.action.type == "preempt"]


@pytest.mark.parametrize(
    ("others", "least"),
    [
        pytest.param({"save_s": 300.0}, {"save_s": 60.0}, id="by the time to save"),
        pytest.param({"save_s": 300.0, "start_s": 900.0}, {}, id="that before all"),
        pytest.param({}, {"start_s": 900.0}, id="then by what was done since the start"),
        pytest.param({}, {"saved_s": 950.0}, id="or since the last verified save"),
        pytest.param(
            {"saved_s": 950.0}, {"start_s": 960.0, "saved_s": 700.0}, id="in this run alone"
        ),
    ],
)
def test_the_borrower_that_loses_least_makes_room(
    others: dict[str, float], least: dict[str, float]
) -> None:
    for at in range(3):
        made = [
            borrower(f"n{number}", **(least if number == at else others)) for number in range(3)
        ]

        assert stopped(*made) == [f"n{at}"]


def test_of_those_that_lose_the_same_the_last_makes_room() -> None:
    assert stopped(*(borrower(f"n{number}") for number in range(3))) == ["n2"]


def test_a_better_rank_is_not_stopped_because_it_loses_less() -> None:
    long, short = borrower("n0", save_s=10.0), borrower("n1", save_s=5.0, start_s=800.0)

    assert stopped(long, short) == ["n0"]  # it has had most; neither stop is dear
