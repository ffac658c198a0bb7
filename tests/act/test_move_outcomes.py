"""What moves and changes of size cost or bring, as the views show it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from factories import decision, job, node, receipt, view
from steward.act.verify import ClusterVerifier
from steward.model.actions import Action, Migrate, Resize
from steward.model.identity import GpuId, JobId
from steward.model.job import Job, JobState
from steward.model.outcome import Outcome
from steward.model.view import ClusterView
from steward.model.yardstick import RUN, STOP_COST

HERE, THERE = GpuId("n1/gpu0"), GpuId("n2/gpu0")
MOVE = Migrate(job=JobId("j1"), source=(HERE,), target=(THERE,))
GROW = Resize(job=JobId("j1"), now=(HERE,), then=(HERE, GpuId("n1/gpu1")))
STOPPED = job("j1").changed(1030.0, JobState.QUEUED, "moved", lost_s=5.0)


def seen(t_s: float, *jobs: Job) -> ClusterView:
    return view(node("n1"), node("n2"), jobs=jobs, t_s=t_s)


def measured(action: Action, *views: ClusterView) -> list[Outcome]:
    verifier, made = ClusterVerifier(), decision(action=action)
    verifier.begin(made, receipt(made, t_s=1000.0), seen(1000.0))
    return [outcome for each in views for _, outcome in verifier.follow(each)]


def test_a_move_costs_the_time_until_it_runs_elsewhere_what_is_lost_and_the_restore() -> None:
    arrived = replace(
        STOPPED.changed(1040.0, JobState.RUNNING, "started"), gpus=(THERE,), start_s=1040.0
    )

    (outcome,) = measured(
        MOVE,
        seen(1020.0, job("j1", on=(HERE,))),
        seen(1035.0, STOPPED),
        seen(1045.0, arrived),
    )

    assert (outcome.yardstick, outcome.gained.mid) == (STOP_COST, -75.0)  # 40 + 5 + 30
    assert "it ran elsewhere after 40 s; 5 s of work is lost" in outcome.text


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (seen(1700.0, job("j1", on=(HERE,))), "it was not elsewhere after 700 s"),
        (seen(1050.0), "it had ended after 50 s"),
    ],
)
def test_a_move_that_did_not_come_about_is_judged_too(at: ClusterView, words: str) -> None:
    (outcome,) = measured(MOVE, at)

    assert words in outcome.text


def test_a_job_with_another_size_is_measured_by_what_it_holds_until_the_check() -> None:
    wide = replace(job("j1", on=GROW.then), start_s=1100.0)

    (outcome,) = measured(
        GROW, seen(1100.0, job("j1")), *(seen(1100.0 + 100 * i, wide) for i in range(1, 7))
    )

    assert (outcome.yardstick, outcome.gained.mid) == (RUN, 1000.0)
    assert "checked: it held 0.28 GPU-hours" in outcome.text


def test_a_job_that_ends_before_the_check_is_measured_until_then() -> None:
    over = replace(job("j1").changed(1150.0, JobState.COMPLETED, "done"), end_s=1150.0)

    (outcome,) = measured(
        GROW,
        seen(1100.0, job("j1", on=GROW.then)),
        replace(seen(1160.0), ended=(over,)),
    )

    assert outcome.gained.mid == 200.0
    assert "it ended" in outcome.text
