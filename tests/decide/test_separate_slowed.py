from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from factories import job, loan, node, view
from live_views import with_beliefs
from steward.decide.scheduling.separate_slowed import SeparateSlowed
from steward.model.actions import CallBack, Migrate
from steward.model.identity import DecisionId, GpuId, JobId
from steward.model.job import Checkpointing, Job
from steward.model.view import ClusterView

GPU, FREE = GpuId("n1/gpu0"), GpuId("n1/gpu1")
FIRST, SECOND = job("j1", on=(GPU,)), job("j2", on=(GPU,))
COSTLY = Checkpointing(able=True, save_s=200.0, restore_s=300.0)
CANNOT = Checkpointing()


def seen(*jobs: Job, left_s: float | None = 36_000.0, **slower: float) -> ClusterView:
    made = view(node("n1", 2), jobs=jobs or (FIRST, SECOND))
    return with_beliefs(made, left_s=left_s, slower=slower or {"j1": 0.4})


def shared(*, allowed: float = 0.1, slower: float = 0.15, really: bool = True) -> ClusterView:
    owner = replace(FIRST, max_slowdown_share=allowed)
    loans = (replace(loan(), shared=really),)
    return with_beliefs(
        view(node("n1", 2), jobs=(owner, SECOND), loans=loans), slower={"j1": slower}
    )


def test_a_shared_loan_is_called_back_when_its_owner_is_slower_than_it_allows() -> None:
    (made,) = SeparateSlowed().decide(shared())

    assert made.action == CallBack(
        loan=DecisionId("d-1"), gpus=(GPU,), owner=JobId("j1"), borrower=JobId("j2")
    )
    assert "job j1 steps 15% to 15% slower than it did, which is more than 10%" in made.because
    assert made.returns
    assert SeparateSlowed().decide(shared()) == (made,)


def test_a_loan_goes_on_within_what_its_owner_allows() -> None:
    assert SeparateSlowed().decide(shared(slower=0.1)) == ()


def test_a_loan_that_is_not_shared_is_left_to_those_who_watch_its_owner() -> None:
    assert SeparateSlowed().decide(shared(slower=0.5, really=False)) == ()


def test_of_two_that_share_a_gpu_the_one_that_it_costs_less_moves() -> None:
    (made,) = SeparateSlowed().decide(seen(replace(FIRST, checkpointing=COSTLY), SECOND))

    assert made.action == Migrate(job=JobId("j2"), source=(GPU,), target=(FREE,))
    assert made.expects.mid == -50.0
    assert made.subject == "job:j1"


def test_who_cannot_save_stays_and_the_other_moves() -> None:
    (made,) = SeparateSlowed().decide(seen(FIRST, replace(SECOND, checkpointing=CANNOT)))

    assert made.action == Migrate(job=JobId("j1"), source=(GPU,), target=(FREE,))


def test_two_that_slow_each_other_down_are_separated_once() -> None:
    assert len(SeparateSlowed().decide(seen(j1=0.4, j2=0.4))) == 1


@pytest.mark.parametrize(
    "at",
    [
        view(node("n1", 2), jobs=(FIRST, SECOND)),
        seen(j1=0.2),
        seen(j1=float("nan")),
        seen(FIRST, job("j2", on=(FREE,))),
        seen(left_s=None),
        seen(left_s=float("nan")),
        seen(left_s=250.0),
        seen(*(replace(each, checkpointing=CANNOT) for each in (FIRST, SECOND))),
        seen(FIRST, SECOND, job("j3", on=(FREE,))),
    ],
    ids=[
        "nothing is believed",
        "it is slowed down by little",
        "it is not measured",
        "they do not share",
        "how long it runs for is not forecast",
        "how long it runs for is not known",
        "it is nearly done",
        "neither can save",
        "nothing is free",
    ],
)
def test_they_stay_together(at: ClusterView) -> None:
    assert SeparateSlowed().decide(at) == ()


def test_a_job_of_which_something_is_open_does_not_move() -> None:
    at = seen()

    stays = replace(at, jobs=replace(at.jobs, reserved=np.array([True, True])))

    assert SeparateSlowed().decide(stays) == ()
