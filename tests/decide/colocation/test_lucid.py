from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation_views import kind, moment
from steward.decide.scheduling.colocation.interface import Profile, Share, StartAlone
from steward.decide.scheduling.colocation.lucid import JUMBO, MEDIUM, TINY, Lucid


@pytest.mark.parametrize(
    ("speed", "score"),
    [(0.96, TINY), (0.95, MEDIUM), (0.85, MEDIUM), (0.84, JUMBO), (math.nan, JUMBO)],
)
def test_a_job_is_scored_by_its_mean_speed_beside_others(speed: float, score: int) -> None:
    assert Lucid().score(speed) == score


def test_the_rank_is_the_predicted_gpu_time() -> None:
    assert Lucid().rank(60.0, 4.0) == 240.0


def test_two_nodes_of_a_large_cluster_are_set_apart_for_profiling() -> None:
    profiling = Lucid().profiling(480, 8)

    assert (profiling.gpus, profiling.time_s, profiling.most_gpus) == (16, 80.0, 4.0)


def test_a_small_cluster_sets_a_twentieth_apart_and_a_tiny_one_nothing() -> None:
    assert Lucid().profiling(24, 8).gpus == 1
    assert Lucid().profiling(24, 8).most_gpus == 1
    assert Lucid().profiling(16, 8).gpus == 0


def test_new_jobs_are_profiled_first_in_line_while_the_cluster_is_served_too() -> None:
    seen = moment(unprofiled=[(1.0, 5, 7), (2.0, 1, 3)], waiting={kind(): [(9.0, 2, 4)]}, fits=[4])

    assert Lucid().decide(seen) == (Profile(job=7), StartAlone(job=4))


def test_a_full_partition_lets_new_jobs_wait() -> None:
    seen = moment(unprofiled=[(1.0, 5, 7)], fits_profiling=lambda _: False)

    assert Lucid().decide(seen) == ()


def test_nobody_is_looked_for_in_a_cluster_where_nothing_has_happened() -> None:
    seen = moment(waiting={kind(): [(9.0, 2, 4)]}, fits=[4], settled=True)

    assert Lucid().decide(seen) == ()


def test_the_least_predicted_gpu_time_goes_first_and_who_does_not_fit_is_passed() -> None:
    seen = moment(
        waiting={kind(8.0): [(1.0, 1, 0)], kind(1.0): [(5.0, 2, 1)], kind(2.0): [(3.0, 3, 2)]},
        fits=[1, 2],
    )

    assert Lucid().decide(seen) == (StartAlone(job=2),)


def test_sharing_comes_before_free_gpus() -> None:
    seen = moment(waiting={kind(): [(5.0, 1, 0)]}, alone={(1.0, TINY): [(5.0, 0, 9)]}, fits=[0])

    assert Lucid().decide(seen) == (Share(job=0, partner=9),)


def test_while_few_jobs_arrive_nobody_shares_and_nobody_passes_the_first() -> None:
    seen = moment(
        waiting={kind(2.0): [(1.0, 1, 0)], kind(): [(5.0, 2, 1)]},
        alone={(2.0, TINY): [(5.0, 0, 9)]},
        fits=[1],
        arrivals_per_s=0.0,
    )

    assert Lucid().decide(seen) == ()


def test_a_job_joins_the_least_disturbed_and_then_the_longest() -> None:
    alone = {
        (1.0, TINY): [(4.0, 0, 5), (6.0, 0, 6)],
        (1.0, MEDIUM): [(99.0, 0, 7)],
        (2.0, TINY): [(99.0, 0, 8)],
    }
    seen = moment(waiting={kind(score=MEDIUM): [(9.0, 1, 0)]}, alone=alone)

    assert Lucid().decide(seen) == (Share(job=0, partner=6),)


def test_jumbos_do_not_share_with_medium_ones() -> None:
    seen = moment(waiting={kind(score=JUMBO): [(1.0, 1, 0)]}, alone={(1.0, MEDIUM): [(9.0, 0, 5)]})

    assert Lucid().decide(seen) == ()


def test_nobody_joins_a_job_that_is_expected_to_end_long_before() -> None:
    seen = moment(waiting={kind(): [(9.0, 1, 0)]}, alone={(1.0, TINY): [(4.0, 0, 5)]})

    assert Lucid().decide(seen) == ()


def test_partners_that_memory_or_type_forbid_are_left_out() -> None:
    seen = moment(
        waiting={kind(): [(1.0, 1, 0)]},
        alone={(1.0, TINY): [(5.0, 0, 4), (6.0, 0, 5), (7.0, 0, 6)]},
        may_join=lambda _, other: other != 6,
        can_share=lambda _, other: other != 5,
    )

    assert Lucid().decide(seen) == (Share(job=0, partner=4),)


def test_fractions_and_wide_gangs_never_share() -> None:
    alone = {(0.5, TINY): [(9.0, 0, 5)], (16.0, TINY): [(9.0, 0, 6)]}
    seen = moment(waiting={kind(0.5): [(1.0, 1, 0)], kind(16.0): [(1.0, 2, 1)]}, alone=alone)

    assert Lucid().decide(seen) == ()


lines = st.dictionaries(
    st.tuples(st.sampled_from([1.0, 2.0, 8.0]), st.sampled_from([0, 1, 2])),
    st.lists(st.floats(1.0, 100.0), min_size=1, max_size=4),
    max_size=6,
)


@given(waiting=lines, alone=lines)
def test_every_pair_is_of_equal_size_and_bears_it(
    waiting: dict[tuple[float, int], list[float]], alone: dict[tuple[float, int], list[float]]
) -> None:
    numbered = iter(range(1000))
    rank: dict[int, tuple[float, int, float]] = {}

    def line(key: tuple[float, int], ranks: list[float]) -> list[tuple[float, int, int]]:
        found = []
        for value in sorted(ranks):
            job = next(numbered)
            rank[job] = (*key, value)
            found.append((value, job, job))
        return found

    seen = moment(
        waiting={kind(key[0], score=key[1]): line(key, each) for key, each in waiting.items()},
        alone={key: line(key, each) for key, each in alone.items()},
    )

    for choice in Lucid().decide(seen):
        assert isinstance(choice, Share)
        gpus, score, mine = rank[choice.job]
        other_gpus, other_score, other = rank[choice.partner]
        assert gpus == other_gpus
        assert score + other_score <= 2
        assert mine <= 2.0 * other
