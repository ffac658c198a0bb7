from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.decide.planning.spot import SpotTable, spot_table
from steward.errors import StewardError
from steward.model.planning.spot import Capacity, SpotJob, SpotLife

STEP_S = 360.0


@lru_cache
def table(
    *, work: int = 20, deadline: int = 30, restart: int = 2, lasts: float = 10.0, back: float = 5.0
) -> SpotTable:
    job = SpotJob(
        work_s=work * STEP_S,
        deadline_s=deadline * STEP_S,
        restart_s=restart * STEP_S,
        spot_price=1 / 3,
    )
    life = SpotLife(lasts_s=lasts * STEP_S, back_s=back * STEP_S)
    return spot_table(job, life, step_s=STEP_S)


def run(found: SpotTable, there: list[bool]) -> tuple[float, int]:
    """Return what a job costs and after how many steps it ends."""
    deadline, work = found.choices.shape[0] - 1, found.choices.shape[3] - 1
    cost, on, restarting = 0.0, Capacity.NONE, 0
    for step in range(deadline):
        if on is Capacity.SPOT and not there[step]:
            on = Capacity.NONE
        chosen = found.choose(
            left_s=(deadline - step) * STEP_S,
            work_s=work * STEP_S,
            on=on,
            restarting_s=restarting * STEP_S,
            spot_is_there=there[step],
        )
        assert chosen is not Capacity.SPOT or there[step]
        if chosen is not on:
            on, restarting = chosen, found.restart_steps
        if on is Capacity.NONE:
            continue
        cost += 1 / 3 if on is Capacity.SPOT else 1.0
        restarting, work = (restarting - 1, work) if restarting else (0, work - 1)
        if work == 0:
            return cost, step + 1
    raise AssertionError(f"{work} steps of work are left")


@settings(deadline=None)
@given(there=st.lists(st.booleans(), min_size=30, max_size=30))
def test_no_job_is_late_whatever_capacity_does(there: list[bool]) -> None:
    cost, ended = run(table(), there)

    assert ended <= 30
    assert 22 / 3 - 1e-9 <= cost <= 30


def test_a_job_runs_on_spot_while_there_is_some() -> None:
    cost, ended = run(table(), [True] * 30)

    assert (cost, ended) == (pytest.approx(22 / 3), 22)


def test_a_job_without_slack_runs_on_demand_at_once() -> None:
    cost, ended = run(table(deadline=22), [False] * 22)

    assert (cost, ended) == (22.0, 22)


def test_spot_that_is_seldom_lost_is_waited_for_while_there_is_slack() -> None:
    there = [False] * 4 + [True] * 26

    cost, _ = run(table(lasts=1000.0, back=4.0), there)

    assert cost == pytest.approx(22 / 3)


def test_more_time_never_costs_more() -> None:
    costs = [table(deadline=deadline).cost for deadline in range(22, 60, 4)]

    assert all(after <= before + 1e-9 for before, after in pairwise(costs))


def test_without_spot_now_a_job_costs_no_less() -> None:
    assert table().cost_without >= table().cost


def test_capacity_elsewhere_makes_a_loss_cheaper() -> None:
    job = SpotJob(work_s=20 * STEP_S, deadline_s=26 * STEP_S, restart_s=STEP_S, spot_price=0.3)
    one, many = (
        spot_table(
            job,
            SpotLife(lasts_s=5 * STEP_S, back_s=20 * STEP_S, elsewhere_share=share),
            step_s=STEP_S,
        )
        for share in (0.0, 0.99)
    )

    assert many.cost < 0.8 * one.cost


def test_the_expected_cost_is_the_mean_of_what_jobs_cost() -> None:
    random = np.random.default_rng(0)
    found, costs = table(), []
    lost, back = 1 - np.exp(-1 / 10), 1 - np.exp(-1 / 5)
    for _ in range(600):
        there = [True]
        while len(there) < 30:
            there.append(bool(random.random() >= lost if there[-1] else random.random() < back))
        costs.append(run(found, there)[0] * STEP_S)

    error = 4 * np.std(costs) / np.sqrt(len(costs))
    assert found.cost == pytest.approx(np.mean(costs), abs=error)


def test_done_is_done_and_what_is_behind_its_table_runs_on_demand() -> None:
    assert table().choose(left_s=9e9, work_s=0.0, spot_is_there=True) is Capacity.NONE
    assert table().choose(left_s=-360.0, work_s=360.0, spot_is_there=True) is Capacity.ON_DEMAND
    assert table().choose(left_s=9e9, work_s=9e9, spot_is_there=True) is Capacity.ON_DEMAND


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"work_s": -1.0}, "work is -1.0 s"),
        ({"deadline_s": 0.0}, "the deadline in 0.0 s"),
        ({"spot_price": float("nan")}, "prices are nan"),
        ({"on_demand_price": 0.0}, "0.0 on demand"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused(changed: dict[str, float], said: str) -> None:
    sound = {"work_s": 60.0, "deadline_s": 600.0, "restart_s": 0.0, "spot_price": 0.3}

    with pytest.raises(StewardError, match=said):
        SpotJob(**(sound | changed))


def test_a_life_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(StewardError, match="elsewhere in 2"):
        SpotLife(lasts_s=1.0, back_s=1.0, elsewhere_share=2.0)


def test_a_deadline_that_cannot_be_met_is_refused_with_the_least_time() -> None:
    with pytest.raises(StewardError, match="do not end") as fault:
        table(deadline=21)

    assert "7920 s" in (fault.value.hint or "")


def test_too_many_steps_are_refused() -> None:
    job = SpotJob(work_s=1.0, deadline_s=9e9, restart_s=0.0, spot_price=0.3)

    with pytest.raises(StewardError, match="steps of 360"):
        spot_table(job, SpotLife(lasts_s=1.0, back_s=1.0))
