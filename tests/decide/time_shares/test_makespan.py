from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from steward.decide.scheduling.time_shares.makespan import Makespan
from steward.decide.scheduling.time_shares.problem import TimeShareProblem
from time_share_problems import problem_of, problems


def ends_s(
    problem: TimeShareProblem, shares: np.ndarray[tuple[int, int], np.dtype[np.float64]]
) -> float:
    speed = (problem.rate * shares).sum(axis=1)
    return float((problem.steps_left / speed).max())


def test_long_jobs_get_more_so_that_all_end_together() -> None:
    problem = problem_of([1.0, 1.0], capacity=(1.0,), steps_left=[9000.0, 3000.0])

    shares = Makespan().decide(problem).jobs.ravel()

    assert shares[0] / shares[1] == pytest.approx(3.0, rel=0.15)
    assert ends_s(problem, shares[:, None]) == pytest.approx(12000.0, rel=0.06)


def test_work_of_a_year_is_within_the_search() -> None:
    problem = problem_of([1.0], capacity=(1.0,), steps_left=[3.2e7])

    shares = Makespan().decide(problem).jobs

    assert shares[0, 0] > 0.94


def test_knowing_the_types_never_makes_the_makespan_longer() -> None:
    rate = [[8.0, 1.0], [8.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    problem = problem_of([1.0] * 4, capacity=(1.0, 1.0), rate=rate)

    aware, blind = Makespan().decide(problem).jobs, Makespan(aware=False).decide(problem).jobs

    assert ends_s(problem, aware) < ends_s(problem, blind)


@settings(max_examples=10)
@given(problem=problems())
def test_everybody_ends_within_five_percent_of_what_packing_nothing_allows(
    problem: TimeShareProblem,
) -> None:
    central = Makespan().decide(problem).jobs
    corner = (
        Makespan(packed=True)
        .decide(
            problem_of(
                problem.gpus.tolist(),
                capacity=problem.capacity.tolist(),
                rate=problem.rate.tolist(),
                steps_left=problem.steps_left.tolist(),
            )
        )
        .jobs
    )

    assert ends_s(problem, central) <= max(1.06 * ends_s(problem, corner), 110.0)
