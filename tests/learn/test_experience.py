"""Experience with similar jobs: shrinkage of a class towards its parent, and ranks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.learn.experience import (
    EDGES_S,
    Experience,
    blank_experience,
    level_of,
    likely,
    mean_left,
    rank_of,
    remember,
)

ALL, SIZE, OTHER, LEAF = range(4)
TREE = np.array([-1, ALL, ALL, SIZE])
LEVELS = len(EDGES_S)


def knowing(
    *ended: tuple[int, float], strength: float = 10.0, memory: float = 1000.0
) -> Experience:
    """Return the experience after these jobs (class and GPU time) have ended."""
    past = blank_experience(TREE, strength=strength, memory=memory)
    for leaf, gpu_s in ended:
        remember(past, leaf, gpu_s)
    return past


def test_levels_begin_at_their_edges() -> None:
    assert level_of(EDGES_S, 0.0) == 0
    assert level_of(EDGES_S, EDGES_S[5]) == 5
    assert level_of(EDGES_S, np.nextafter(EDGES_S[5], 0)) == 4
    assert level_of(EDGES_S, 1e30) == LEVELS - 1


def test_with_nothing_known_any_level_is_as_likely_as_any_other() -> None:
    assert likely(knowing(), LEAF) == pytest.approx(np.full(LEVELS, 1 / LEVELS))


def test_with_nothing_known_whoever_has_had_less_goes_first() -> None:
    past = knowing()
    years = 365 * 86_400.0  # the last few levels are at the end of what is counted

    ranks = [rank_of(past, LEAF, level) for level in range(level_of(EDGES_S, 3 * years))]

    assert (np.diff(ranks[1:]) > 0).all()
    assert ranks[0] < ranks[3]  # the first level is wider than the next ones


def test_a_job_that_ended_is_remembered_by_its_class_and_all_above_it() -> None:
    past = knowing((LEAF, 1000.0))

    assert past.total.tolist() == [1, 1, 0, 1]
    assert past.seen[LEAF, level_of(EDGES_S, 1000.0)] == 1
    assert past.finished[0] == 1


def test_a_class_that_has_seen_little_leans_on_the_one_above_it() -> None:
    long, short = level_of(EDGES_S, 50_000.0), level_of(EDGES_S, 100.0)
    past = knowing(*[(OTHER, 50_000.0)] * 500, (LEAF, 100.0))

    share = likely(past, LEAF)

    assert share[long] > 0.6
    assert 0.2 > share[short] > likely(past, OTHER)[short]
    assert share.sum() == pytest.approx(1)


def test_a_class_that_has_seen_enough_speaks_for_itself() -> None:
    past = knowing(*[(OTHER, 50_000.0)] * 500, *[(LEAF, 100.0)] * 200)

    assert likely(past, LEAF)[level_of(EDGES_S, 100.0)] > 0.95


def test_strength_says_how_many_jobs_of_its_own_a_class_needs() -> None:
    mine = level_of(EDGES_S, 100.0)
    ended = [*[(OTHER, 50_000.0)] * 500, *[(LEAF, 100.0)] * 60]

    weak, strong = (likely(knowing(*ended, strength=s), LEAF)[mine] for s in (1.0, 1000.0))

    assert weak > 0.9
    assert strong < 0.2


def test_what_is_long_ago_fades() -> None:
    ended = [*[(LEAF, 100.0)] * 300, *[(LEAF, 50_000.0)] * 60]
    long = level_of(EDGES_S, 50_000.0)

    forgets, remembers = (likely(knowing(*ended, memory=m), LEAF)[long] for m in (20.0, 1e6))

    assert forgets > 0.6
    assert remembers < 0.3
    assert knowing(*ended, memory=20.0).total[LEAF] == pytest.approx(20.0, rel=0.01)


def test_the_mean_is_that_of_the_jobs_that_ended() -> None:
    sure = knowing(*[(LEAF, 10_000.0)] * 900, strength=1e-9)

    assert mean_left(sure, LEAF, 0) == pytest.approx(10_000, rel=0.2)


def test_the_mean_of_the_longest_is_beyond_the_last_edge() -> None:
    sure = knowing((LEAF, 1e30), strength=1e-12)

    assert mean_left(sure, LEAF, 0) == pytest.approx(1.5 * EDGES_S[-1])


def test_what_is_left_counts_only_jobs_that_got_as_far() -> None:
    past = knowing(*[(LEAF, 100.0)] * 450, *[(LEAF, 10_000.0)] * 450, strength=1e-9)

    level = level_of(EDGES_S, 5_000.0)

    assert mean_left(past, LEAF, level) == pytest.approx(10_000 - EDGES_S[level], rel=0.2)


def test_a_job_that_is_about_to_end_ranks_before_a_new_one() -> None:
    past = knowing(*[(LEAF, 10_000.0)] * 900, strength=1e-6)

    near = level_of(EDGES_S, 10_000.0)

    assert rank_of(past, LEAF, near) < rank_of(past, LEAF, 0) / 2


def test_classes_of_short_jobs_rank_before_classes_of_long_ones() -> None:
    past = knowing(*[(LEAF, 100.0)] * 50, *[(OTHER, 50_000.0)] * 50)

    assert rank_of(past, LEAF, 0) < rank_of(past, OTHER, 0) / 10


def test_a_job_that_has_outlived_all_others_ranks_last() -> None:
    past = knowing(*[(LEAF, 100.0)] * 50)

    assert rank_of(past, LEAF, 20) > 10 * rank_of(past, LEAF, 0)


def test_ranks_are_renewed_when_a_tenth_more_jobs_have_ended() -> None:
    past = knowing(*[(LEAF, 50_000.0)] * 100)
    while past.finished[0] != past.finished[1]:
        remember(past, LEAF, 50_000.0)
    before = rank_of(past, LEAF, 0)

    for _ in range(int(past.finished[1] * 0.1)):
        remember(past, LEAF, 100.0)
    kept = rank_of(past, LEAF, 0)
    remember(past, LEAF, 100.0)

    assert kept == before
    assert rank_of(past, LEAF, 0) < before


def gittins_by_hand(share: np.ndarray, level: int) -> float:
    """Return the least expected time per end over all horizons, from the definition.

    Within a level jobs end in its middle; the last one is as long as all before it.
    """
    edges = [*EDGES_S, 2 * EDGES_S[-1]]
    best = np.inf
    for horizon in range(level, LEVELS):
        ended = share[level : horizon + 1].sum()
        spent = sum(
            share[i] * ((edges[i] + edges[i + 1]) / 2 - edges[level])
            for i in range(level, horizon + 1)
        )
        spent += share[horizon + 1 :].sum() * (edges[horizon + 1] - edges[level])
        best = min(best, spent / ended if ended > 0 else np.inf)
    return float(best)


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 3), st.floats(1, 1e6)), max_size=40), st.integers(0, 48))
def test_ranks_are_the_inverse_of_the_gittins_index(
    ended: list[tuple[int, float]], level: int
) -> None:
    past = knowing(*ended)

    assert rank_of(past, LEAF, level) == pytest.approx(gittins_by_hand(likely(past, LEAF), level))
