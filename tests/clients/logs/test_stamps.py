"""When a line was written, from how it begins."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.clients.logs.stamps import iso_s, stamp_s

NOW_S = 1_794_752_357.0  # 15 November 2026


@pytest.mark.parametrize(
    ("text", "t_s"),
    [
        ("2023-10-06T00:17:09.669794202Z stdout F hello", 1696551429.669794),
        ("2026-04-22T21:25:20+02:00 hello", 1776885920.0),
        ("[2026-04-22T21:25:20Z] slurmd: hello", 1776893120.0),
        ("2026-04-22T21:25:20Z: hello", 1776893120.0),
    ],
)
def test_a_line_that_begins_with_a_time_has_that_time(text: str, t_s: float) -> None:
    assert stamp_s(text, NOW_S) == pytest.approx(t_s, abs=1e-5)


def test_a_time_without_a_zone_is_local() -> None:
    message = stamp_s("2026-05-19 07:08:57,123 INFO step 3", NOW_S)

    assert message == datetime(2026, 5, 19, 7, 8, 57, 123000).timestamp()  # noqa: DTZ001


def test_a_syslog_time_is_of_the_latest_year_that_is_not_ahead() -> None:
    assert stamp_s("Nov 14 07:08:57 n1 app: x", NOW_S) == iso_s("2026-11-14T07:08:57")
    assert stamp_s("Dec 24 07:08:57 n1 app: x", NOW_S) == iso_s("2025-12-24T07:08:57")
    assert stamp_s("May  9 07:08:57 n1 app: x", NOW_S) == iso_s("2026-05-09T07:08:57")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "12345",
        "[",
        "[1/10] compiling",
        "Mary had a lamb",
        "2099-01-01T00:00:00Z from the future",
        "2026-13-45T99:99:99Z nonsense",
        "Feb 31 00:00:00 never",
    ],
)
def test_a_line_that_does_not_has_none(text: str) -> None:
    assert stamp_s(text, NOW_S) is None


@given(st.text(max_size=60))
def test_no_text_breaks_it(text: str) -> None:
    message = stamp_s(text, NOW_S)

    assert message is None or message <= NOW_S + 86400.0
