import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.decide.planning.hours import greenest_start, hours_of_run, mean_while_running
from steward.errors import StewardError

GRAMS = st.lists(st.floats(0, 1000), min_size=1, max_size=60)


@given(by_hour=GRAMS, run_s=st.floats(60, 20 * 3600), slack_h=st.integers(0, 30))
def test_no_allowed_start_has_less_than_the_one_chosen(
    by_hour: list[float], run_s: float, slack_h: int
) -> None:
    hours = np.array(by_hour)
    parts = hours_of_run(run_s)
    starts = [
        float(hours[start : start + len(parts)] @ parts / parts.sum())
        for start in range(min(slack_h, len(hours) - len(parts)) + 1)
    ]
    if not starts:
        with pytest.raises(StewardError, match="hours are known"):
            greenest_start(hours, run_s, slack_h=slack_h)
        return

    wait, grams = greenest_start(hours, run_s, slack_h=slack_h)

    assert 0 <= wait <= slack_h
    assert grams == pytest.approx(min(starts), abs=1e-6)
    assert starts[wait] == pytest.approx(grams, abs=1e-6)


def test_the_earliest_of_equal_hours_is_taken() -> None:
    assert greenest_start(np.array([5.0, 5.0, 5.0]), 3600.0, slack_h=2)[0] == 0


def test_a_part_of_an_hour_counts_for_its_part() -> None:
    means = mean_while_running(np.array([100.0, 400.0, 100.0]), 5400.0)

    assert means.tolist() == pytest.approx([(100 + 0.5 * 400) / 1.5, (400 + 0.5 * 100) / 1.5])


@pytest.mark.parametrize("run_s", [0.0, -1.0, float("inf"), float("nan")])
def test_a_run_without_a_length_is_refused(run_s: float) -> None:
    with pytest.raises(StewardError, match="a run of"):
        hours_of_run(run_s)
