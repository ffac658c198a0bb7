"""The Pareto front over end, money and carbon."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from plans import NOW_S, choice, exactly
from steward.decide.planning.front import beaten, front_of
from steward.model.planning.plan import Choice

figures = st.integers(0, 4)


def at(end: float, usd: float | None, co2: float | None, unit: str = "USD", **but: Any) -> Choice:
    amount = 5.0 if usd is None else usd
    return choice(
        end_s=exactly(NOW_S + end),
        usd=None if usd is None else exactly(usd),
        units={unit: but.pop("units", amount)},
        co2_kg=None if co2 is None else exactly(co2),
        **but,
    )


@st.composite
def choices(draw: st.DrawFn) -> Choice:
    priced = draw(st.booleans())
    unit = "USD" if priced else draw(st.sampled_from(["SU", "credits"]))
    return at(
        draw(figures),
        float(draw(figures)) if priced else None,
        draw(st.none() | figures),
        unit,
        units=float(draw(figures)),
    )


@given(st.lists(choices(), max_size=12))
def test_nothing_on_the_front_is_beaten_and_every_other_is_beaten_by_one_on_it(
    found: list[Choice],
) -> None:
    kept, beaten_by = front_of(found)

    assert sorted([*kept, *beaten_by]) == list(range(len(found)))
    assert {*beaten_by.values()} <= {*kept}
    for loser, winner in beaten_by.items():
        assert beaten(found[winner], found[loser])
    for one in kept:
        for other in kept:
            assert one == other or not beaten(found[one], found[other]), (one, other)


def test_of_equals_the_first_stays() -> None:
    assert front_of([at(1, 1, 1), at(1, 1, 1)]) == ([0], {1: 0})


def test_carbon_that_nobody_knows_counts_as_the_worst() -> None:
    assert front_of([at(1, 1, None), at(1, 1, 9)]) == ([1], {0: 1})
    assert front_of([at(1, 1, None), at(2, 2, 9)])[0] == [0, 1]


def test_units_without_a_price_are_compared_with_their_like_and_with_what_is_free() -> None:
    units = at(2, None, 2, "SU")
    money = at(1, 1, 1)
    more_units = at(2, None, 2, "SU", units=6.0)
    other_units = at(2, None, 2, "credits")
    free = at(1, 0.0, 1)

    assert front_of([units, money])[0] == [0, 1]
    assert front_of([units, more_units, other_units]) == ([0, 2], {1: 0})
    assert front_of([units, free]) == ([1], {0: 1})


def test_units_of_which_none_are_charged_are_free() -> None:
    assert front_of([at(1, None, 1, "SU", units=0.0), at(2, 3.0, 2)]) == ([0], {1: 0})


def test_there_is_no_front_of_nothing() -> None:
    assert front_of([]) == ([], {})
