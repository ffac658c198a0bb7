import numpy as np
import pytest

from steward.learn.estimators.spot_lives import spot_lives
from steward.model.planning.spot import Capacity
from steward.sim.spot import SpotMoment, SpotTrial, generated_capacity, offline_cost, run_on_spot

TRIAL = SpotTrial(work=10, deadline=20, restart=2, spot_price=0.25)


def spot_or_wait(seen: SpotMoment) -> tuple[Capacity, int]:
    if seen.on is Capacity.SPOT:
        return seen.on, seen.zone
    return (Capacity.SPOT, seen.there[0]) if seen.there else (Capacity.NONE, -1)


def on_demand(seen: SpotMoment) -> tuple[Capacity, int]:
    return Capacity.ON_DEMAND, -1


def test_generated_zones_have_capacity_as_often_as_recorded_ones() -> None:
    there = np.concatenate(
        [
            generated_capacity(seed, zones=9, steps=5000, step_s=360.0, lives="heavy")
            for seed in range(8)
        ]
    )
    shares = there.mean(axis=1)

    assert 0.4 < shares.mean() < 0.68
    assert shares.min() < 0.35
    assert shares.max() > 0.75


def test_the_same_seed_gives_the_same_capacity() -> None:
    first, second = (
        generated_capacity(3, zones=2, steps=300, step_s=360.0, lives="memoryless")
        for _ in range(2)
    )

    assert (first == second).all()


def test_a_job_pays_its_starts_and_loses_a_start_that_is_cut_short() -> None:
    there = np.array([[True, False, True, True] + [True] * 16])

    cost, in_time = run_on_spot(TRIAL, there, spot_or_wait)

    assert in_time
    assert cost == pytest.approx(0.25 * (1 + 2 + 10))


def test_a_job_that_waits_for_ever_is_late() -> None:
    assert run_on_spot(TRIAL, np.zeros((1, 20), np.bool_), spot_or_wait) == (0.0, False)


@pytest.mark.parametrize("seed", range(12))
def test_no_policy_costs_less_than_knowing_the_future(seed: int) -> None:
    there = generated_capacity(seed, zones=3, steps=20, step_s=1800.0, lives="heavy")
    best = offline_cost(TRIAL, there)

    costs = [run_on_spot(TRIAL, there, policy) for policy in (spot_or_wait, on_demand)]

    assert best <= min(cost for cost, in_time in costs if in_time) + 1e-9


def test_knowing_the_future_takes_the_zone_that_lasts() -> None:
    there = np.array([[True] * 3 + [False] * 17, [True] * 20])

    assert offline_cost(TRIAL, there) == pytest.approx(0.25 * 12)


def test_lives_are_those_of_the_zone_that_lasts_longest() -> None:
    steps = np.arange(4000)
    there = np.stack([steps % 20 < 10, steps % 200 < 150])

    learned = spot_lives(there, step_s=360.0)

    assert learned.best((0, 1)) == 1
    assert learned.lasts_s[0] == pytest.approx(3600.0, rel=0.02)
    assert learned.life.lasts_s > 3 * 3600.0
    assert 0 < learned.life.elsewhere_share < 1


def test_a_zone_that_was_never_lost_does_not_last_for_ever() -> None:
    learned = spot_lives(np.ones((1, 100), np.bool_), step_s=360.0)

    assert learned.life.lasts_s == pytest.approx(100 * 360.0 + 3 * 3600.0)
    assert learned.life.elsewhere_share == 0.0
