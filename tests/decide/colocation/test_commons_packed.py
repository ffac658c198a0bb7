from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation_views import kind, moment
from steward.decide.scheduling.colocation.commons_packed import CommonsPacked
from steward.decide.scheduling.colocation.interface import ColocationView, Share, Solo, StartAlone
from steward.errors import StewardError

UNKNOWN = (math.nan, math.nan)


def full(*, speeds: dict[int, tuple[float, float]], **changes: Any) -> ColocationView:
    """Return a moment in which job 0 waits, and each partner of `speeds` is a model of its own."""
    solos = {Solo(1.0, other, 0): [(1.0, other, other)] for other in speeds}
    values: dict[str, Any] = {
        "waiting": {kind(model=0): [(1.0, 99, 0)]},
        "solos": solos,
        "pair_speeds": lambda _, other: speeds[other],
    }
    return moment(**{**values, **changes})


def test_the_rank_is_the_gpu_time_that_similar_jobs_took() -> None:
    policy = CommonsPacked()

    assert policy.rank(60.0, 4.0) == 240.0
    assert policy.profiling(480, 8) is None
    assert policy.score(0.1) == policy.score(math.nan)


def test_the_least_expected_gpu_time_goes_first_and_who_does_not_fit_is_passed() -> None:
    seen = moment(
        waiting={kind(8.0): [(1.0, 1, 0)], kind(1.0): [(5.0, 2, 1)], kind(2.0): [(3.0, 3, 2)]},
        fits=[1, 2],
    )

    assert CommonsPacked().decide(seen) == (StartAlone(job=2),)
    assert CommonsPacked().decide(moment()) == ()


def test_free_gpus_come_before_sharing() -> None:
    seen = full(speeds={5: (1.0, 1.0)}, fits=[0])

    assert CommonsPacked().decide(seen) == (StartAlone(job=0),)


def test_without_free_gpus_a_job_joins_the_one_with_which_it_gets_most_done() -> None:
    seen = full(speeds={4: (0.7, 0.7), 5: (1.0, 0.6), 6: (0.7, 0.75)})

    assert CommonsPacked().decide(seen) == (Share(job=0, partner=5),)


def test_who_comes_first_may_share_before_another_takes_free_gpus() -> None:
    waiting = {kind(model=0): [(1.0, 99, 0)], kind(0.5): [(2.0, 98, 1)]}

    seen = full(speeds={5: (0.9, 0.9)}, waiting=waiting, fits=[1])

    assert CommonsPacked().decide(seen) == (Share(job=0, partner=5),)
    assert CommonsPacked(packs=False).decide(seen) == (StartAlone(job=1),)


@pytest.mark.parametrize("speeds", [(0.6, 0.7), (1.0, 0.0), (0.0, 0.0), UNKNOWN])
def test_nobody_shares_where_it_does_not_pay_or_nobody_measured_it(
    speeds: tuple[float, float],
) -> None:
    assert CommonsPacked().decide(full(speeds={5: speeds})) == ()


def test_a_job_only_joins_jobs_of_its_size_that_were_measured() -> None:
    line = [(1.0, 5, 5)]
    solos = {Solo(2.0, 3, 0): line, Solo(1.0, -1, 0): line}

    seen = full(speeds={5: (1.0, 1.0)}, solos=solos)

    assert CommonsPacked().decide(seen) == ()


def test_of_equals_it_joins_the_one_that_takes_longest_where_it_may() -> None:
    line = [(1.0, 1, 4), (2.0, 2, 5), (3.0, 3, 6)]
    solos = {Solo(1.0, 1, 0): line, Solo(1.0, 2, 0): [(1.5, 4, 7)], Solo(1.0, 3, 0): [(9.0, 5, 8)]}
    seen = full(
        speeds=dict.fromkeys((4, 5, 6, 7, 8), (0.9, 0.8)),
        solos=solos,
        may_join=lambda _, other: other not in (6, 8),
    )

    assert CommonsPacked().decide(seen) == (Share(job=0, partner=5),)


def test_a_sum_that_gains_nothing_is_refused_with_what_is_possible() -> None:
    with pytest.raises(StewardError, match=r"least_together is 1\.0") as told:
        CommonsPacked(least_together=1.0)

    assert "above 1" in str(told.value.hint)


left = st.floats(0.01, 100.0)


@given(runs_s=left, waits_s=left, speed=st.floats(2.0 / 3.0, 1.0))
def test_two_that_share_from_the_least_sum_on_do_not_end_later_on_average(
    runs_s: float, waits_s: float, speed: float
) -> None:
    short, long = sorted((runs_s, waits_s))

    shared_s = short / speed + (short / speed + long - short)

    assert 2.0 * speed >= CommonsPacked().least_together
    assert shared_s <= (runs_s + (runs_s + waits_s)) * (1.0 + 1e-9)


speeds_of_two = st.one_of(st.just(UNKNOWN), st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)))
sizes = st.sampled_from([1.0, 2.0])
models = st.integers(-1, 3)


@given(
    waiting=st.lists(st.tuples(sizes, models), max_size=6, unique=True),
    alone=st.lists(st.tuples(sizes, models), max_size=6, unique=True),
    speeds=st.lists(speeds_of_two, min_size=36, max_size=36),
    fits=st.sets(st.integers(0, 5)),
    least=st.floats(1.01, 2.0),
)
def test_who_shares_is_measured_to_gain_has_equal_size_and_no_free_place(
    waiting: list[tuple[float, int]],
    alone: list[tuple[float, int]],
    speeds: list[tuple[float, float]],
    fits: set[int],
    least: float,
) -> None:
    def measured(job: int, other: int) -> tuple[float, float]:
        return UNKNOWN if waiting[job][1] < 0 else speeds[6 * job + other - 100]

    seen = moment(
        waiting={kind(g, model=m): [(1.0, i, i)] for i, (g, m) in enumerate(waiting)},
        solos={Solo(g, m, 0): [(1.0, 100 + i, 100 + i)] for i, (g, m) in enumerate(alone)},
        pair_speeds=measured,
        fits=sorted(fits),
    )

    for choice in CommonsPacked(least_together=least).decide(seen):
        if isinstance(choice, Share):
            other = choice.partner - 100
            assert choice.job not in fits
            assert waiting[choice.job][0] == alone[other][0]
            assert min(waiting[choice.job][1], alone[other][1]) >= 0
            assert sum(speeds[6 * choice.job + other]) >= least > 1.0
        else:
            assert isinstance(choice, StartAlone)
            assert choice.job in fits
