"""Times, figures and curves as text."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.cli.words import ago, gpu_hours, moment, number, span, sparkline


@pytest.mark.parametrize(
    ("seconds", "says"),
    [
        (0.2, "0.2 s"),
        (59, "59 s"),
        (60, "1 min"),
        (5400, "1.5 h"),
        (172800, "2 d"),
        (-90, "-1.5 min"),
    ],
)
def test_a_span_is_in_its_largest_unit(seconds: float, says: str) -> None:
    assert span(seconds) == says


def test_times_are_local_and_to_the_second() -> None:
    text = moment(1_700_000_000.9)

    assert text.startswith("2023-11-1")
    assert "." not in text


def test_times_that_cannot_be_are_unknown() -> None:
    assert moment(math.nan) == moment(1e300) == "an unknown time"
    assert ago(math.nan, 0.0) == "at an unknown time"


def test_a_time_is_seen_from_now() -> None:
    assert ago(40.0, 100.0) == "1 min ago"
    assert ago(160.0, 100.0) == "in 1 min"


def test_figures_keep_three_digits() -> None:
    assert [number(each) for each in (0.01234, 12.345, 1234567.0, 0.0, math.inf)] == [
        "0.0123",
        "12.3",
        "1,234,567",
        "0",
        "unknown",
    ]
    assert gpu_hours(3600.0) == "1 GPU-hours"


@given(st.lists(st.none() | st.floats(allow_nan=True, allow_infinity=True), max_size=200))
def test_a_line_is_never_wider_than_it_may_be(values: list[float | None]) -> None:
    line = sparkline(values, width=60)

    assert len(line) == min(len(values), 60)
    assert set(line) <= set("▁▂▃▄▅▆▇█ ")


def test_a_long_line_shows_means() -> None:
    assert sparkline([0.0] * 100 + [1.0] * 100, width=4) == "▁▁██"


def test_unknown_values_are_blank_and_a_flat_line_is_low() -> None:
    assert sparkline([1.0, None, 1.0]) == "▁ ▁"
    assert sparkline([None, None]) == "  "
