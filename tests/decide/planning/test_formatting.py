"""How a plan's figures read."""

from __future__ import annotations

import pytest

from plans import HOUR_S, NOW_S, choice, way
from steward.decide.planning.formatting import amount, dollars, duration, listed, name_of, way_name


@pytest.mark.parametrize(
    ("value_s", "text"),
    [
        (40.0, "40 s"),
        (90.0, "1.5 min"),
        (2 * HOUR_S, "2 h"),
        (47 * HOUR_S, "47 h"),
        (3e5, "3.47 d"),
    ],
)
def test_a_length_of_time_is_in_the_unit_that_people_use(value_s: float, text: str) -> None:
    assert duration(value_s) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "$0.00"), (0.0042, "$0.004"), (12.5, "$12.50"), (12_345.4, "$12,345")],
)
def test_money_has_cents_where_they_matter(value: float, text: str) -> None:
    assert dollars(value) == text


def test_amounts_have_three_digits_that_count() -> None:
    assert amount(0.00012345, "kg") == "0.000123 kg"


@pytest.mark.parametrize(
    ("parts", "text"), [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_parts_are_listed(parts: list[str], text: str) -> None:
    assert listed(parts) == text


def test_a_choice_is_named_by_place_way_and_start() -> None:
    later = choice(start_s=NOW_S + 2 * HOUR_S)

    assert name_of(choice(), NOW_S) == "here/gpu (1 x A100)"
    assert name_of(later, NOW_S) == "here/gpu (1 x A100, started 2 h later)"
    assert way_name(way(gpu_model="", gpus=0, batch=8)) == "no GPU, batch 8"
