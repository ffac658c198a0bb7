"""When a job starts, by playing the queue ahead through."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.decide.scheduling.queue_wait import QueueAhead, StartForecast, start_forecast
from steward.errors import StewardError

DRAWS = 3
Jobs = list[tuple[int, float]]  # GPUs, run time


def starts(
    running: Jobs, waiting: Jobs, *, capacity: int = 4, backfill: bool = True, draws: int = DRAWS
) -> StartForecast:
    left = np.tile(np.array([run_s for _, run_s in running], float), (draws, 1))
    run = np.tile(np.array([run_s for _, run_s in waiting], float), (draws, 1))
    return start_forecast(
        QueueAhead(
            capacity=capacity,
            held=np.array([gpus for gpus, _ in running], np.int64),
            left_s=left,
            running_limit_s=left[0].copy(),
            asked=np.array([gpus for gpus, _ in waiting], np.int64),
            run_s=run,
            limit_s=run[0].copy(),
            backfill=backfill,
        )
    )[0]


def test_a_job_that_fits_starts_at_once() -> None:
    found = starts([(2, 100.0)], [(2, 50.0)])

    assert (found.low_s, found.high_s, found.now_share) == (0.0, 0.0, 1.0)


def test_it_waits_for_those_that_run_and_those_ahead() -> None:
    found = starts([(4, 100.0)], [(4, 30.0), (4, 70.0), (1, 5.0)], backfill=False)

    assert found.mid_s == 200.0


def test_a_small_job_passes_where_it_moves_nobody() -> None:
    ahead = [(3, 100.0)]

    assert starts(ahead, [(4, 30.0), (1, 90.0)]).mid_s == 0.0
    assert starts(ahead, [(4, 30.0), (1, 110.0)]).mid_s == 130.0
    assert starts(ahead, [(4, 30.0), (1, 90.0)], backfill=False).mid_s == 130.0


def test_a_job_that_leaves_enough_passes_however_long_it_is() -> None:
    assert starts([(3, 100.0)], [(3, 30.0), (1, 9999.0)]).mid_s == 0.0


def test_a_job_that_fits_nowhere_never_starts_and_holds_nobody_up() -> None:
    assert starts([], [(5, 1.0)]).never
    assert starts([(4, 10.0)], [(9, 1.0), (4, 1.0)]).mid_s == 10.0


def test_draws_give_a_range() -> None:
    found, waits_s = start_forecast(
        QueueAhead(
            capacity=1,
            held=np.array([1]),
            left_s=np.linspace(1.0, 100.0, 100)[:, None],
            running_limit_s=np.array([np.inf]),
            asked=np.array([1]),
            run_s=np.ones((100, 1)),
            limit_s=np.array([np.inf]),
        )
    )

    assert found.mid_s == pytest.approx(50.5)
    assert found.low_s < 10
    assert found.high_s > 90
    assert len(waits_s) == 100


def test_what_cannot_be_one_moment_is_refused() -> None:
    one, none = np.ones((2, 1)), np.ones((2, 0))
    no_job, a_job = np.ones(0, np.int64), np.ones(1, np.int64)

    with pytest.raises(StewardError, match="1 running and 1 waiting"):
        QueueAhead(
            capacity=1,
            held=a_job,
            left_s=none,
            running_limit_s=np.ones(0),
            asked=a_job,
            run_s=one,
            limit_s=np.ones(1),
        )
    with pytest.raises(StewardError, match="no job waits"):
        QueueAhead(
            capacity=1,
            held=a_job,
            left_s=one,
            running_limit_s=np.ones(1),
            asked=no_job,
            run_s=none,
            limit_s=np.ones(0),
        )


JOBS = st.lists(st.tuples(st.integers(1, 4), st.floats(1.0, 1e4)), min_size=1, max_size=8)


@settings(deadline=None, max_examples=60)
@given(waiting=JOBS)
def test_in_strict_order_a_wait_is_what_a_plain_replay_gives(waiting: Jobs) -> None:
    ends: list[tuple[float, int]] = []
    free, now_s = 4, 0.0
    for gpus, run_s in waiting:
        while gpus > free:
            now_s, back = min(ends)
            ends.remove((now_s, back))
            free += back
        free -= gpus
        ends.append((now_s + run_s, gpus))

    assert starts([], waiting, backfill=False, draws=1).mid_s == pytest.approx(now_s)


@settings(deadline=None, max_examples=60)
@given(waiting=JOBS, own=st.tuples(st.integers(1, 4), st.floats(1.0, 1e4)))
def test_passing_the_first_never_starts_a_lone_job_behind_it_later(
    waiting: Jobs, own: tuple[int, float]
) -> None:
    line = [waiting[0], own]

    assert starts([(2, 50.0)], line).mid_s <= starts([(2, 50.0)], line, backfill=False).mid_s
