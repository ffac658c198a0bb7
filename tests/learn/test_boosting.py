"""Durations by boosted trees: trained on ended jobs, predicted for new ones."""

from __future__ import annotations

import numpy as np
import pytest

from steward.learn.boosting import FEWEST, BoostedDurations
from steward.model.machines import machines_of
from steward.model.trace import Trace, trace_of
from steward.sim.lab.run import replay
from steward.sim.lab.settings import LabSettings


def two_kinds(jobs: int = 400) -> Trace:
    """Return a trace in which large jobs are long, whoever submits them."""
    large = np.arange(jobs) % 2 == 1
    return trace_of(
        "two kinds",
        submit_s=np.arange(jobs) * 60.0,
        duration_s=np.where(large, 5000.0, 50.0),
        gpus=np.where(large, 4.0, 1.0),
    )


def test_what_made_past_jobs_long_makes_new_ones_long() -> None:
    trace = two_kinds()

    found = BoostedDurations(trace).learn(np.arange(200), np.arange(200, 400))

    assert found[trace.gpus[200:] == 4] == pytest.approx(np.full(100, 5000.0), rel=0.1)
    assert found[trace.gpus[200:] == 1] == pytest.approx(np.full(100, 50.0), rel=0.1)


def test_it_learns_once_enough_have_ended_and_again_when_four_times_as_many_have() -> None:
    trees = BoostedDurations(two_kinds(4 * FEWEST))

    assert not trees.learns(np.arange(FEWEST - 1))
    assert trees.learns(np.arange(FEWEST))

    trees.learn(np.arange(FEWEST), np.arange(0))

    assert not trees.learns(np.arange(4 * FEWEST - 1))
    assert trees.learns(np.arange(4 * FEWEST))


def test_nobody_asked_about_gets_no_answer() -> None:
    assert len(BoostedDurations(two_kinds()).learn(np.arange(200), np.arange(0))) == 0


def test_qssf_with_trees_gives_the_same_replay_twice() -> None:
    trace = two_kinds(3000)

    first, again = (replay(trace, machines_of(8), "qssf", LabSettings()) for _ in range(2))

    assert first.end_s.tobytes() == again.end_s.tobytes()


def test_trees_change_whom_qssf_serves_first() -> None:
    """Who submits after noon has long jobs here, which tables of similar jobs do not see."""
    late = np.random.default_rng(1).random(3000) < 0.5
    day_s = np.arange(3000) // 50 * 86_400.0
    order = np.argsort(day_s + late * 50_000.0, kind="stable")
    trace = trace_of(
        "hours",
        submit_s=(day_s + late * 50_000.0)[order],
        duration_s=np.where(late, 9000.0, 90.0)[order],
        gpus=np.ones(3000),
    )

    with_trees, without = (
        replay(trace, machines_of(1), "qssf", LabSettings(policy_options={"qssf.rolling": part}))
        for part in (0.1, 1.0)
    )

    assert (with_trees.end_s - trace.submit_s).mean() < (without.end_s - trace.submit_s).mean()
