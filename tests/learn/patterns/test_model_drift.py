from __future__ import annotations

from dataclasses import replace

import numpy as np

from factories import job, node, view
from steward.learn.patterns.model_drift import ErrorStream, ModelDrift
from steward.model.forecast import RUN_LIMITS_S, About, ForecastColumn
from steward.model.job import JobState
from steward.model.view import ClusterView


def believing_run_time(seen: ClusterView, run_s: float) -> ClusterView:
    mid = np.full(len(seen.jobs), run_s)
    column = ForecastColumn(
        about=About.JOBS, quantity=RUN_LIMITS_S, low=mid, mid=mid, high=mid, basis="history, 3 jobs"
    )
    return seen.with_forecasts((column,))


def turns(miner: ModelDrift, ran_s: list[float]) -> tuple[str, ...]:
    said: tuple[str, ...] = ()
    for number, each_s in enumerate(ran_s):
        running = job(f"j{number}", on=["n1/gpu0"])
        miner.mine(believing_run_time(view(node("n1", 1), jobs=[running]), 100.0))
        ended = replace(running, state=JobState.COMPLETED, start_s=0.0, end_s=each_s, gpus=())
        over = replace(view(node("n1", 1)), ended=(ended,))
        said = tuple(each.statement for each in miner.mine(over))
    return said


def test_forecasts_that_become_wrong_are_told_with_how_wrong() -> None:
    good = list(100.0 * np.exp(np.random.default_rng(0).normal(0.0, 0.1, 60)))
    bad = list(400.0 * np.exp(np.random.default_rng(1).normal(0.0, 0.1, 60)))

    (said,) = turns(ModelDrift(), [*good, *bad])

    assert "by history" in said
    assert "off by a factor of 1.0" in said
    assert "0 of these within a factor of two" in said


def test_forecasts_that_stay_as_good_are_not_mentioned() -> None:
    ran_s = list(100.0 * np.exp(np.random.default_rng(2).normal(0.0, 0.3, 100)))

    assert turns(ModelDrift(), ran_s) == ()


def test_a_restored_miner_knows_the_drift() -> None:
    miner, restored = ModelDrift(), ModelDrift()
    said = turns(miner, [100.0, 110.0] * 30 + [500.0, 450.0] * 30)

    restored.restore_state(miner.save_state())

    assert tuple(each.statement for each in restored.mine(view(node("n1", 1)))) == said
    assert said


def test_a_stream_keeps_a_bounded_number_of_errors() -> None:
    stream = ErrorStream()
    for error in [0.0] * 500 + [3.0] * 2500:
        stream.add(error)

    assert len(stream.errors) == 2000
    assert stream.drifted_at is None
