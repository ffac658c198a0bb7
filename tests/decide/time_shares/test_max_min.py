from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from steward.decide.scheduling.time_shares.max_min import MaxMin
from steward.decide.scheduling.time_shares.problem import TimeShareProblem
from time_share_problems import is_feasible, problem_of, problems


def test_two_equal_jobs_share_one_gpu_evenly() -> None:
    shares = MaxMin().decide(problem_of([1.0, 1.0], capacity=(1.0,)))

    assert shares.jobs.ravel() == pytest.approx([0.5, 0.5], abs=1e-5)


def test_each_job_gets_the_type_on_which_it_is_relatively_fast() -> None:
    rate = [[8.0, 1.0], [8.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    problem = problem_of([1.0] * 4, capacity=(1.0, 1.0), rate=rate)

    shares = MaxMin().decide(problem).jobs

    assert (shares[:2, 0] > 10.0 * shares[:2, 1]).all()
    assert (shares[2:, 1] > shares[2:, 0]).all()


def test_a_blind_policy_does_not_see_which_type_is_fast() -> None:
    problem = problem_of([1.0, 1.0], capacity=(1.0, 1.0), rate=[[4.0, 1.0], [1.0, 1.0]])

    shares = MaxMin(aware=False).decide(problem).jobs

    assert shares[0] == pytest.approx(shares[1], abs=1e-5)


def test_a_job_of_twice_the_weight_gets_twice_the_share() -> None:
    problem = problem_of([1.0, 1.0], capacity=(1.0,), weight=[2.0, 1.0])

    shares = MaxMin().decide(problem).jobs

    assert shares.ravel() == pytest.approx([2.0 / 3.0, 1.0 / 3.0], abs=1e-5)


def test_a_wide_job_gets_time_in_inverse_proportion_to_its_gpus() -> None:
    shares = MaxMin().decide(problem_of([1.0, 2.0], capacity=(2.0,))).jobs

    assert shares[0, 0] == pytest.approx(1.0, abs=1e-4)
    assert shares[1, 0] == pytest.approx(0.5, abs=1e-4)


def test_water_filling_goes_on_to_raise_those_who_can_still_rise() -> None:
    problem = problem_of(
        [1.0, 1.0, 1.0], capacity=(1.0, 4.0), rate=[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    )

    filled = MaxMin(water_filling=True).decide(problem).jobs

    assert filled[:2, 0] == pytest.approx([0.5, 0.5], abs=1e-3)
    assert filled[2, 1] == pytest.approx(1.0, abs=1e-3)


@settings(max_examples=10)
@given(problem=problems())
def test_water_filling_leaves_nobody_worse_off_than_the_lowest(problem: TimeShareProblem) -> None:
    def levels(policy: MaxMin) -> float:
        shares = policy.decide(problem).jobs
        equal = (problem.rate * (problem.capacity / problem.capacity.sum())).sum(axis=1)
        return float(((problem.rate * shares).sum(axis=1) * problem.gpus / equal).min())

    assert levels(MaxMin(water_filling=True)) >= levels(MaxMin()) * (1.0 - 1e-3)


def test_packing_raises_the_lowest_when_sharing_costs_little() -> None:
    problem = problem_of([1.0, 1.0], capacity=(1.0,), together=0.8)

    shares = MaxMin(packed=True).decide(problem)

    assert is_feasible(problem, shares)
    assert shares.pairs[0, 0] == pytest.approx(1.0)


def test_a_job_that_runs_nowhere_does_not_break_the_program() -> None:
    problem = problem_of([1.0, 1.0], capacity=(1.0,), rate=[[0.0], [1.0]])

    shares = MaxMin().decide(problem).jobs

    assert np.isfinite(shares).all()
