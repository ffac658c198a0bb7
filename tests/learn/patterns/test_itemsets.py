"""Frequent itemsets: the same as brute force, however they are counted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_baskets import all_itemsets, any_baskets, baskets, pairs, windows_with
from steward.batch import Workers
from steward.errors import StewardError
from steward.learn.patterns.baskets import ABSENT, Baskets
from steward.learn.patterns.cube import add_cubes, count_cube
from steward.learn.patterns.distinct_rows import count_rows
from steward.learn.patterns.itemsets import (
    ItemCounts,
    Itemsets,
    Kind,
    add_counts,
    count_items,
    count_parts,
    frequent_bounded,
    frequent_itemsets,
    least_count,
    selected,
)
from steward.learn.patterns.run_counts import run_counts

settings.register_profile("mining", deadline=None, max_examples=40)
mining = settings(settings.get_profile("mining"))


def as_dict(found: Itemsets) -> dict[object, int]:
    return {pairs(code): int(n) for code, n in zip(found.codes, found.counts, strict=True)}


def brute_force(known: Baskets, share: float) -> dict[object, int]:
    least = least_count(share, len(known))
    counts = {each: len(windows_with(known, each)) for each in all_itemsets(known)}
    return {each: n for each, n in counts.items() if n >= least}


@mining
@given(any_baskets(), st.sampled_from([0.1, 0.25, 0.5, 1.0]))
def test_a_cube_and_distinct_rows_find_what_brute_force_finds(known: Baskets, share: float) -> None:
    expected = brute_force(known, share)

    assert as_dict(frequent_itemsets(known, share, count_cube(known))) == expected
    assert as_dict(frequent_itemsets(known, share, count_rows(known))) == expected


@mining
@given(any_baskets())
def test_closed_and_maximal_ones_are_those_without_such_a_superset(known: Baskets) -> None:
    every = brute_force(known, 0.2)

    found = frequent_itemsets(known, 0.2)

    supersets = {one: [b for b in every if {*one} < {*b}] for one in every}
    closed = {one: n for one, n in every.items() if all(every[b] < n for b in supersets[one])}
    assert as_dict(selected(found, Kind.CLOSED)) == closed
    assert as_dict(selected(found, Kind.MAXIMAL)) == {
        one: n for one, n in every.items() if not supersets[one]
    }


@mining
@given(any_baskets(), st.integers(1, 5))
def test_parts_add_up_to_exactly_the_whole(known: Baskets, parts: int) -> None:
    whole = frequent_itemsets(known, 0.1)

    for most_bytes in (2**30, 0):
        merged = count_parts(known, parts, most_bytes=most_bytes)
        found = frequent_itemsets(known, 0.1, merged)
        assert np.array_equal(found.codes, whole.codes)
        assert np.array_equal(found.counts, whole.counts)


def test_parts_in_two_processes_add_up_to_exactly_the_whole() -> None:
    known = baskets(np.random.default_rng(1).integers(0, 3, (200, 5)))

    found = count_parts(known, 3, workers=Workers(processes=2))

    cells = count_items(known)
    assert np.array_equal(frequent_itemsets(known, 0.01, found).counts,
                          frequent_itemsets(known, 0.01, cells).counts)  # fmt: skip


@mining
@given(any_baskets())
def test_windows_are_counted_in_each_run(known: Baskets) -> None:
    found = frequent_itemsets(known, 0.01)

    counted = run_counts(known, found.codes)

    for row, code in enumerate(found.codes):
        runs = [known.run[w] for w in windows_with(known, pairs(code))]
        assert counted[row].tolist() == [runs.count(r) for r in range(len(known.runs))]


def test_runs_longer_than_a_machine_word_are_counted() -> None:
    known = baskets([[0]] * 130 + [[1]] * 70 + [[0]] * 3, run=[0] * 200 + [1] * 3)

    assert run_counts(known, np.array([[0], [1]], np.uint8)).tolist() == [[130, 3], [70, 0]]


def test_many_groups_do_without_a_cube() -> None:
    rows = np.random.default_rng(2).integers(0, 3, (300, 24))
    known = baskets(rows)

    found = frequent_itemsets(known, 0.1)

    assert type(count_items(known)).__name__ == "DistinctRows"
    assert len(found) == sum(
        len(windows_with(known, each)) >= 30 for each in _up_to_pairs(known)
    ) + int(np.sum(found.lengths > 2))


def _up_to_pairs(known: Baskets) -> list[tuple[tuple[int, int], ...]]:
    items = [(g, level) for g in range(len(known.groups)) for level in range(3)]
    two = [(a, b) for i, a in enumerate(items) for b in items[i + 1 :] if a[0] != b[0]]
    return [*((item,) for item in items), *two]


def test_a_share_is_compared_exactly() -> None:
    assert least_count(0.1, 30) == 3  # 0.1 as a binary number times 30 is above 3
    assert least_count(0.7, 10) == 7


def test_where_nothing_was_measured_there_are_no_itemsets() -> None:
    known = baskets([[ABSENT, ABSENT]] * 4)

    assert len(frequent_itemsets(known, 0.1)) == 0
    assert len(selected(frequent_itemsets(known, 0.1), Kind.CLOSED)) == 0


def test_no_windows_give_no_itemsets() -> None:
    known = baskets(np.empty((0, 3)), run=[])

    assert len(frequent_itemsets(known, 0.1)) == 0
    assert len(frequent_itemsets(known, 0.1, count_rows(known))) == 0


def test_a_level_without_a_name_is_refused() -> None:
    for count in (count_cube, count_rows):
        with pytest.raises(StewardError, match="group g1 has level 7 of 3"):
            count(baskets([[0, 7]]))


def test_parts_with_other_levels_do_not_add_up() -> None:
    one, other = baskets([[0]]), baskets([[0]], level_names=(("low", "high"),))

    with pytest.raises(StewardError, match="do not add up"):
        add_cubes(count_cube(one), count_cube(other))
    with pytest.raises(StewardError, match="do not add up"):
        add_counts(count_rows(one), count_rows(other))
    with pytest.raises(StewardError, match="a cube and distinct rows"):
        add_counts(count_rows(one), count_cube(one))


def test_more_itemsets_than_anybody_reads_are_refused() -> None:
    known = baskets(np.zeros((4, 20)))

    with pytest.raises(StewardError, match="more than 1,000 itemsets") as fault:
        count_rows(known).frequent(1, most=1_000)

    assert "larger support" in fault.value.hint


@mining
@given(any_baskets(), st.integers(1, 3))
def test_short_itemsets_are_those_of_all_that_are_short(known: Baskets, longest: int) -> None:
    expected = {
        code: n for code, n in brute_force(known, 0.1).items() if len(code) <= longest
    }  # fmt: skip

    for counts in (count_cube(known), count_rows(known)):
        assert as_dict(frequent_itemsets(known, 0.1, counts, longest=longest)) == expected


@pytest.mark.parametrize("count", [count_cube, count_rows])
def test_more_is_asked_of_itemsets_until_they_can_be_read(
    count: Callable[[Baskets], ItemCounts],
) -> None:
    rng = np.random.default_rng(0)
    known = baskets(rng.integers(0, 2, (200, 8)))

    found, share = frequent_bounded(known, 0.01, count(known), most=100)

    assert 0 < len(found) <= 100
    assert as_dict(found) == as_dict(frequent_itemsets(known, share))
    assert len(frequent_itemsets(known, share / 1.6)) > 100


@pytest.mark.parametrize("count", [count_cube, count_rows])
def test_windows_that_are_all_alike_have_their_itemsets_listed_however_many(
    count: Callable[[Baskets], ItemCounts],
) -> None:
    known = baskets(np.zeros((4, 8)))

    found, share = frequent_bounded(known, 0.01, count(known), most=100)

    assert (len(found), share) == (2**8 - 1, 1.0)


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5, float("nan")])
def test_a_share_outside_0_to_1_is_refused(share: float) -> None:
    with pytest.raises(StewardError, match="not between 0 and 1"):
        frequent_itemsets(baskets([[0]]), share)
