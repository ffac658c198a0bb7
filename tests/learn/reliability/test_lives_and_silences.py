"""Survival by age, and nodes that stop answering."""

from __future__ import annotations

from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.learn.reliability import blackouts, hazard_by_age, kaplan_meier
from steward.model.faults import AnswerSpan

MINUTE_S = 60.0


def test_survival_is_that_of_the_textbook() -> None:
    # Kaplan and Meier's own example (1958): deaths at 0.8, 3.1, 5.4, 9.2; losses between.
    ages = np.array([0.8, 1.0, 2.7, 3.1, 5.4, 7.0, 9.2, 12.1])
    failed = np.array([1, 0, 0, 1, 1, 0, 1, 0], bool)

    found = kaplan_meier(ages, failed)

    assert found.share == pytest.approx([7 / 8, 7 / 10, 21 / 40, 21 / 80])
    assert found.median == 9.2
    assert found.at(0.5).mid == 1.0
    assert found.at(4.0).low < 0.7 < found.at(4.0).high


def test_where_all_have_failed_nothing_more_is_known() -> None:
    found = kaplan_meier(np.array([1.0, 2.0]), np.array([True, True]))

    assert (found.share[-1], found.low[-1]) == (0.0, 0.0)
    assert found.high[-1] > 0
    assert isnan(kaplan_meier(np.array([1.0]), np.array([False])).median)


def test_a_single_failure_of_a_single_unit_is_unsure() -> None:
    found = kaplan_meier(np.array([5.0]), np.array([True]))

    assert (found.low[0], found.high[0]) == (0.0, 1.0)


def test_units_that_came_late_are_not_at_risk_before() -> None:
    found = kaplan_meier(np.array([10.0, 20.0]), np.array([True, True]), np.array([0.0, 15.0]))

    assert found.share == pytest.approx([0.0, 0.0])


def test_hazard_counts_time_at_each_age() -> None:
    rows = hazard_by_age(
        np.array([5.0]), (np.array([0.0, 2.0]), np.array([10.0, 20.0])), np.array([0.0, 10.0, 20.0])
    )

    assert [(count, hours) for count, hours, _ in rows] == [(1, 18.0), (0, 10.0)]
    assert rows[1][2].low == 0.0


def spans(*rows: tuple[str, float, float]) -> list[AnswerSpan]:
    return [AnswerSpan(node=n, from_s=a * MINUTE_S, to_s=b * MINUTE_S) for n, a, b in rows]


def test_a_fleet_that_falls_silent_in_one_minute_is_one_incident() -> None:
    fleet = [(f"n{i}", 0.0, 157.0 + (i % 2)) for i in range(300)]
    back = [(f"n{i}", 1300.0, 1439.0) for i in range(100)]

    found = blackouts(spans(*fleet, *back, ("other", 0.0, 1439.0)))

    assert len(found) == 1
    assert (len(found[0].nodes), found[0].steady, found[0].back) == (300, 300, 100)
    assert found[0].t_s == 157 * MINUTE_S
    assert found[0].until_s == 1300 * MINUTE_S
    assert found[0].answering == 301


def test_a_node_that_falls_silent_alone_counts_only_if_it_was_steady() -> None:
    steady, unsteady = ("a", 0.0, 400.0), ("b", 390.0, 410.0)
    others = [(f"n{i}", 0.0, 1439.0) for i in range(9)]

    found = blackouts(spans(steady, unsteady, *others))

    assert [(each.nodes, each.steady) for each in found] == [(("a",), 1)]
    assert isnan(found[0].until_s)


def test_the_end_of_the_record_is_no_silence() -> None:
    assert blackouts(spans(*((f"n{i}", 0.0, 1439.0) for i in range(50)))) == []
    assert blackouts([]) == []


def test_a_fleet_that_wears_away_slowly_is_not_one_moment() -> None:
    fleet = [(f"n{i}", 0.0, 400.0 + 30 * i) for i in range(20)]

    found = blackouts(spans(*fleet, ("last", 0.0, 2000.0)))

    assert len(found) == 20
    assert all(len(each.nodes) == 1 for each in found)


def test_what_two_tables_say_of_the_same_nodes_counts_once() -> None:
    fleet = [(f"n{i}", 0.0, 157.0) for i in range(20)]

    found = blackouts(spans(*fleet, *fleet, ("other", 0.0, 500.0)))

    assert [len(each.nodes) for each in found] == [20]


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 99), st.integers(0, 99))))
def test_no_silence_names_a_node_twice_or_one_that_never_answered(
    rows: list[tuple[str, int, int]],
) -> None:
    given_ = spans(*((node, min(a, b), max(a, b)) for node, a, b in rows))

    for each in blackouts(given_):
        assert len(set(each.nodes)) == len(each.nodes)
        assert set(each.nodes) <= {span.node for span in given_}
        assert each.back <= len(each.nodes) <= each.answering + len(each.nodes)
