from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray
from scipy.optimize import linprog

from steward.decide.scheduling.time_shares.interior_point import ShareProgram, solve_centrally
from steward.decide.scheduling.time_shares.packing_programs import best_level, best_sum
from steward.decide.scheduling.time_shares.problem import TimeShareProblem
from time_share_problems import problem_of, problems

Floats = NDArray[np.float64]


def highest_level(problem: TimeShareProblem) -> float:
    """Solve the max-min program with HiGHS, written out row by row."""
    jobs, types = problem.rate.shape
    size = jobs * types + 1
    rows, limits = [], []
    for i in range(jobs):
        time, floor = np.zeros(size), np.zeros(size)
        time[i * types : (i + 1) * types] = 1.0
        floor[i * types : (i + 1) * types] = -problem.rate[i]
        floor[-1] = 1.0
        rows += [time, floor]
        limits += [1.0, 0.0]
    for j in range(types):
        held = np.zeros(size)
        held[j : jobs * types : types] = problem.gpus
        rows.append(held)
        limits.append(problem.capacity[j])
    cost = np.zeros(size)
    cost[-1] = -1.0
    return -float(linprog(cost, A_ub=np.array(rows), b_ub=limits, bounds=(0.0, None)).fun)


@settings(max_examples=15)
@given(problem=problems())
def test_the_central_optimum_is_as_high_as_the_one_highs_finds(problem: TimeShareProblem) -> None:
    jobs = len(problem)

    found = solve_centrally(
        ShareProgram(
            gpus=problem.gpus,
            capacity=problem.capacity,
            rate=problem.rate,
            base=np.zeros(jobs),
            slope=np.ones(jobs),
        )
    )

    assert found.converged
    assert found.level == pytest.approx(highest_level(problem), rel=1e-4)
    reached = (problem.rate * found.shares).sum(axis=1)
    assert (reached >= found.level * (1.0 - 1e-4)).all()


def test_equal_jobs_get_equal_shares_whatever_their_order() -> None:
    program = ShareProgram(
        gpus=np.array([1.0, 4.0, 1.0, 4.0]),
        capacity=np.array([2.0, 3.0]),
        rate=np.array([[2.0, 1.0], [1.0, 1.0], [2.0, 1.0], [1.0, 1.0]]),
        base=np.zeros(4),
        slope=np.ones(4),
    )

    shares = solve_centrally(program).shares

    assert shares[0] == pytest.approx(shares[2], abs=1e-5)
    assert shares[1] == pytest.approx(shares[3], abs=1e-5)


def test_a_program_without_an_answer_is_not_called_solved() -> None:
    impossible = ShareProgram(
        gpus=np.ones(1), capacity=np.ones(1), rate=np.ones((1, 1)), base=np.array([2.0])
    )

    assert not solve_centrally(impossible).converged


def test_jobs_that_run_well_together_share_gpus() -> None:
    problem = problem_of([1.0, 1.0], capacity=(1.0,), together=0.9)

    jobs, pairs = best_level(problem, problem.rate, scale=np.ones(2))

    assert pairs[0, 0] == pytest.approx(1.0)
    assert jobs.sum() == pytest.approx(0.0)


def test_jobs_that_hinder_each_other_do_not_share_gpus() -> None:
    problem = problem_of([1.0, 1.0], capacity=(1.0,), together=0.4)

    jobs, pairs = best_level(problem, problem.rate, scale=np.ones(2))

    assert pairs[0, 0] == pytest.approx(0.0)
    assert jobs.ravel() == pytest.approx([0.5, 0.5])


def test_deadlines_are_kept_before_throughput_counts() -> None:
    problem = problem_of(
        [1.0, 1.0], capacity=(1.0,), rate=[[5.0], [1.0]], deadline_left_s=[np.nan, 7200.0]
    )

    jobs, _ = best_sum(problem, price=np.ones(1))

    assert jobs.ravel() == pytest.approx([0.5, 0.5])


def test_deadlines_that_cannot_all_be_kept_are_left_out() -> None:
    problem = problem_of(
        [1.0, 1.0], capacity=(1.0,), rate=[[5.0], [1.0]], deadline_left_s=[600.0, 3000.0]
    )

    jobs, _ = best_sum(problem, price=np.ones(1))

    assert jobs.ravel() == pytest.approx([1.0, 0.0])
