from __future__ import annotations

from dataclasses import replace

import numpy as np

from steward.decide.scheduling.time_shares.typed_fifo import TypedFifo
from time_share_problems import problem_of


def test_the_first_takes_the_fastest_type_and_the_next_what_is_left() -> None:
    problem = problem_of([1.0, 1.0], capacity=(1.0, 1.0), rate=[[3.0, 1.0], [3.0, 1.0]])

    shares = TypedFifo().decide(problem).jobs

    assert shares.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_a_job_that_finds_no_room_blocks_those_behind_it() -> None:
    shares = TypedFifo().decide(problem_of([2.0, 4.0, 1.0], capacity=(4.0,))).jobs

    assert shares.ravel().tolist() == [1.0, 0.0, 0.0]


def test_a_job_that_cannot_run_on_the_free_type_lets_others_pass() -> None:
    problem = problem_of(
        [1.0, 1.0, 1.0],
        capacity=(1.0, 1.0),
        rate=[[3.0, 1.0], [3.0, 0.0], [3.0, 1.0]],
    )

    assert TypedFifo().decide(problem).jobs.tolist() == [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]


def test_a_drawn_type_is_kept_for_good() -> None:
    problem = problem_of([1.0, 1.0], capacity=(1.0, 1.0), draws=[0.9, 0.9])
    policy = TypedFifo(aware=False)

    first = policy.decide(problem)
    later = policy.decide(replace(problem, memory=first.memory, draws=np.array([0.1, 0.1])))

    assert first.jobs.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert np.array_equal(first.jobs, later.jobs)
