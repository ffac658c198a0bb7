"""Rates that change with the hour, and the best time to start."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plans import HOUR_S
from steward.decide.planning.hourly_rates import HourlyRate, best_start


def test_the_mean_counts_parts_of_hours() -> None:
    rate = HourlyRate.of([100.0, 300.0], 0.0)

    assert float(rate.mean(0.0, HOUR_S)) == pytest.approx(100.0)
    assert float(rate.mean(HOUR_S / 2, HOUR_S)) == pytest.approx(200.0)


def test_after_the_last_hour_it_is_what_it_is_on_average() -> None:
    year, unknown = (HourlyRate.of([100.0, 300.0], 0.0, beyond=each) for each in (500.0, None))

    assert float(year.mean(2 * HOUR_S, HOUR_S)) == pytest.approx(500.0)
    assert float(unknown.mean(HOUR_S, 2 * HOUR_S)) == pytest.approx(250.0)


@given(
    hours=st.lists(st.floats(0.0, 1000.0), min_size=3, max_size=40),
    length_s=st.floats(600.0, 9 * HOUR_S),
)
def test_the_best_start_is_in_time_and_better_than_now(hours: list[float], length_s: float) -> None:
    rate = HourlyRate.of(hours, 0.0)
    latest_s = 12 * HOUR_S

    start = best_start(rate, now_s=0.0, latest_s=latest_s, wait_s=0.0, length_s=length_s)

    now = float(rate.mean(0.0, length_s))
    tried = [float(rate.mean(s, length_s)) for s in np.arange(0.0, latest_s + 1, HOUR_S)]
    if start is None:
        within = [each for s, each in enumerate(tried) if s * HOUR_S + length_s <= rate.to_s]
        assert min(within, default=now) >= 0.99 * now - 1e-9
    else:
        assert 0 < start <= latest_s
        assert start + length_s <= rate.to_s + 1.0
        assert float(rate.mean(start, length_s)) < 0.99 * now


def test_a_job_that_must_begin_now_begins_now() -> None:
    rate = HourlyRate.of([900.0, 1.0, 1.0], 0.0)

    assert best_start(rate, now_s=0.0, latest_s=60.0, wait_s=0.0, length_s=600.0) is None
