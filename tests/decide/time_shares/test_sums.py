from __future__ import annotations

import pytest

from steward.decide.scheduling.time_shares.isolated import Isolated
from steward.decide.scheduling.time_shares.max_sum import MaxSum
from steward.decide.scheduling.time_shares.min_cost import MinCost
from time_share_problems import problem_of


def test_all_gpus_go_to_whoever_makes_most_steps() -> None:
    problem = problem_of([1.0, 1.0], capacity=(1.0,), rate=[[9.0], [1.0]])

    assert MaxSum().decide(problem).jobs.ravel() == pytest.approx([1.0, 0.0], abs=1e-5)


def test_a_blind_sum_counts_every_type_as_the_usual_one() -> None:
    problem = problem_of([1.0, 1.0], capacity=(1.0, 1.0), rate=[[9.0, 0.1], [1.0, 8.0]])

    blind = MaxSum(aware=False).decide(problem).jobs

    assert blind[0].sum() == pytest.approx(1.0, abs=1e-4)
    assert blind[0, 0] == pytest.approx(blind[0, 1], abs=1e-3)


def test_packed_jobs_add_to_the_sum() -> None:
    problem = problem_of([1.0, 1.0], capacity=(1.0,), together=0.9)

    shares = MaxSum(packed=True).decide(problem)

    assert shares.pairs[0, 0] == pytest.approx(1.0)


def test_a_cheap_slow_type_wins_over_a_dear_fast_one() -> None:
    problem = problem_of([1.0], capacity=(1.0, 1.0), rate=[[4.0, 2.0]], price_per_gpu_h=[5.0, 1.0])

    assert MinCost().decide(problem).jobs.ravel() == pytest.approx([0.0, 1.0])


def test_a_deadline_buys_the_dear_type() -> None:
    problem = problem_of(
        [1.0],
        capacity=(1.0, 1.0),
        rate=[[4.0, 2.0]],
        price_per_gpu_h=[5.0, 1.0],
        deadline_left_s=[1000.0],
    )

    shares = MinCost().decide(problem).jobs.ravel()

    assert shares @ [4.0, 2.0] == pytest.approx(3.6)


def test_everybody_has_an_equal_part_however_wide() -> None:
    shares = Isolated().decide(problem_of([1.0, 4.0], capacity=(4.0, 2.0))).jobs

    assert shares[1] == pytest.approx([0.5, 0.25])
    assert shares[0].sum() == pytest.approx(1.0)
