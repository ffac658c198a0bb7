"""Durations as Go reads them, whole numbers, true and false."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.store.rules.language.scalars import UNITS_NS, duration_ns, finite, flag, whole


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0", 0),
        ("+0", 0),
        ("0s", 0),
        ("5s", 5_000_000_000),
        ("300ms", 300_000_000),
        ("1.5h", 5_400_000_000_000),
        ("1m30s", 90_000_000_000),
        ("-1m30s", -90_000_000_000),
        ("+2h", 7_200_000_000_000),
        (".5us", 500),
        ("5.us", 5_000),
        ("1µs", 1_000),
        ("1μs", 1_000),
        ("7ns", 7),
        ("1.9ns", 1),
        ("-1.9ns", -1),
        ("1s1s", 2_000_000_000),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text: str, ns: int) -> None:
    assert duration_ns(text) == ns


@pytest.mark.parametrize(
    "text",
    ["", "-", "5", "s", "5 s", "1,5s", "--5s", "5S", "1h-5m", "5s ", ".s", "1e3s", "1d", "٣s"],
)
def test_what_is_no_duration_is_refused_with_the_forms_that_are(text: str) -> None:
    with pytest.raises(StewardError) as caught:
        duration_ns(text)

    assert "1m30s" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "hint"), [("30", "did you mean '30s'"), ("2d", "did you mean '48h'")]
)
def test_a_missing_unit_and_days_are_guessed(text: str, hint: str) -> None:
    with pytest.raises(StewardError) as caught:
        duration_ns(text)

    assert hint in caught.value.hint


def test_a_duration_that_no_clock_can_count_is_refused() -> None:
    assert duration_ns("2562047h") < 1 << 63
    with pytest.raises(StewardError, match="292 years"):
        duration_ns("2562048h")


@given(
    st.lists(
        st.tuples(st.decimals(0, 1000, places=3), st.sampled_from(sorted(UNITS_NS))), min_size=1
    ),
    st.sampled_from(["", "-"]),
)
def test_the_parts_of_a_duration_add_up(parts: list[tuple[object, str]], sign: str) -> None:
    text = sign + "".join(f"{number}{unit}" for number, unit in parts)

    total = sum(int(Fraction(str(number)) * UNITS_NS[unit]) for number, unit in parts)

    assert duration_ns(text) == (-total if sign else total)


def test_numbers_are_finite() -> None:
    assert [finite(each) for each in ("1.5", "-2", "1e3", "nan", "-inf", "1e999", "x", "")] == [
        *(1.5, -2.0, 1000.0),
        *[None] * 5,
    ]


def test_words_for_true_and_false_and_whole_numbers() -> None:
    assert [flag(each) for each in ("true", "Yes", "ON", "n", "False", "2")] == [
        *(True, True, True),
        *(False, False, None),
    ]
    assert [whole(each) for each in ("12", "-3", "1.0", "0x1", "", "9" * 30)] == [
        *(12, -3),
        *[None] * 4,
    ]
