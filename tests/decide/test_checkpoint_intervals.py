"""How often a job should save."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.decide.health.checkpoint_intervals import (
    JobLife,
    SaveCosts,
    best_interval,
    best_interval_s,
    daly_s,
    expected_wall_s,
    useful_share,
    young_s,
)
from steward.errors import StewardError


@settings(deadline=None, max_examples=60)
@given(
    save_s=st.floats(1, 600), mean_s=st.floats(600, 1e6), factor=st.floats(0.1, 10),
    restart_s=st.floats(0, 600),
)  # fmt: skip
def test_no_interval_keeps_more_than_the_best(
    save_s: float, mean_s: float, factor: float, restart_s: float
) -> None:
    costs, life = SaveCosts(save_s=save_s, restart_s=restart_s), JobLife(mean_s=mean_s)
    best_s = best_interval_s(costs, life)

    best = useful_share(best_s, costs, life)

    assert best >= useful_share(best_s * factor, costs, life) - 1e-9
    assert best >= useful_share(young_s(save_s, mean_s), costs, life) - 1e-9
    assert best >= useful_share(daly_s(save_s, mean_s), costs, life) - 1e-9
    assert 0 <= best <= 1


def test_a_shape_near_1_gives_what_the_closed_form_gives() -> None:
    costs = SaveCosts(save_s=60.0, restart_s=100.0, down_s=50.0, durable_s=30.0)
    exact, near = JobLife(mean_s=20_000.0), JobLife(mean_s=20_000.0, shape=1.000001)

    assert useful_share(900.0, costs, near) == pytest.approx(
        useful_share(900.0, costs, exact), rel=1e-4
    )
    assert useful_share(best_interval_s(costs, near), costs, exact) == pytest.approx(
        useful_share(best_interval_s(costs, exact), costs, exact), rel=1e-5
    )


def test_very_many_saves_in_a_life_are_summed_as_an_integral() -> None:
    costs = SaveCosts(save_s=0.001)
    often = useful_share(0.5, costs, JobLife(mean_s=1e7, shape=0.8))

    assert often == pytest.approx(0.5 / 0.501, rel=1e-3)


@pytest.mark.parametrize("shape", [0.6, 1.0, 1.8])
def test_the_useful_share_is_that_of_a_simulation(shape: float) -> None:
    costs = SaveCosts(save_s=100.0, restart_s=200.0, down_s=300.0, durable_s=50.0)
    life = JobLife(mean_s=10_000.0, shape=shape)
    rng = np.random.default_rng(3)
    scale_s = {0.6: 10_000 / 1.504575, 1.0: 10_000.0, 1.8: 10_000 / 0.889287}[shape]
    lives = scale_s * rng.weibull(shape, 200_000)

    saves = np.floor(np.maximum(0.0, lives - 200.0 - 50.0) / 1300.0)
    simulated = 1200.0 * saves.sum() / (lives + 300.0).sum()

    assert useful_share(1200.0, costs, life) == pytest.approx(simulated, rel=0.01)


def test_a_job_with_an_end_takes_longer_with_more_failures() -> None:
    costs = SaveCosts(save_s=60.0, restart_s=120.0, down_s=30.0)

    calm = expected_wall_s(36_000.0, 1800.0, costs, JobLife(mean_s=1e9))
    rough = expected_wall_s(36_000.0, 1800.0, costs, JobLife(mean_s=7200.0))

    assert calm == pytest.approx(36_000 + 19 * 60, rel=1e-3)
    assert rough > 1.1 * calm
    with pytest.raises(StewardError, match="constant rate"):
        expected_wall_s(1.0, 1.0, costs, JobLife(mean_s=1.0, shape=2.0))


def test_few_failures_leave_a_wide_range_of_what_to_expect() -> None:
    costs = SaveCosts(save_s=30.0, restart_s=300.0)

    few = best_interval(costs, failures=2, gpu_hours=1e5, gpus=1024)
    many = best_interval(costs, failures=2000, gpu_hours=1e8, gpus=1024)

    assert few.useful.high - few.useful.low > 5 * (many.useful.high - many.useful.low)
    assert few.life_s.low < few.mean_life_s < few.life_s.high
    assert few.flat[0] < few.every_s < few.flat[1]
    assert many.useful.mid >= many.young_useful - 1e-9
    assert many.useful.mid >= many.daly_useful - 1e-9


def test_no_failure_at_all_still_gives_an_interval() -> None:
    found = best_interval(SaveCosts(save_s=30.0), failures=0, gpu_hours=1000.0, gpus=8)

    assert 60 < found.every_s < 1e6


def test_where_saving_takes_longer_than_a_life_nothing_is_kept() -> None:
    costs, life = SaveCosts(save_s=1e6), JobLife(mean_s=100.0)

    assert useful_share(100.0, costs, life) == 0.0
    assert useful_share(0.0, SaveCosts(save_s=0.0), life) == 0.0
    assert daly_s(1e6, 100.0) == 100.0


def test_a_save_that_costs_nothing_is_made_as_often_as_can_be() -> None:
    assert best_interval_s(SaveCosts(save_s=0.0), JobLife(mean_s=1e5)) == 1.0


@pytest.mark.parametrize("wrong", [-1.0, inf, nan])
def test_impossible_costs_and_lives_are_refused(wrong: float) -> None:
    with pytest.raises(StewardError, match="not possible"):
        SaveCosts(save_s=wrong)
    with pytest.raises(StewardError, match="not possible"):
        JobLife(mean_s=1.0, shape=wrong)
    with pytest.raises(StewardError, match="no rate"):
        best_interval(SaveCosts(save_s=1.0), failures=1, gpu_hours=0.0, gpus=1)
