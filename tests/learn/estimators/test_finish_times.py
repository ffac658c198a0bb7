from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.learn.estimators.finish_times import run_posterior
from steward.model.planning.followed import Mark
from steward.model.planning.plan import Range

HOURS = Range(low=3600.0, mid=7200.0, high=14400.0)


def steady(total_s: float, until_s: float, every_s: float = 60.0) -> tuple[Mark, ...]:
    """Return what a job reports that works at one pace."""
    times = np.arange(every_s, until_s + 1e-9, every_s)
    return tuple(Mark(t_s=float(t), done_share=float(t / total_s)) for t in times)


def test_before_it_runs_the_plan_is_all_that_is_known() -> None:
    found = run_posterior(HOURS, elapsed_s=0.0)

    assert found.total_s.mid == pytest.approx(7200, rel=0.02)
    assert found.total_s.low == pytest.approx(3600, rel=0.03)
    assert found.total_s.high == pytest.approx(14400, rel=0.03)
    assert not found.outside


def test_what_a_job_has_survived_is_excluded() -> None:
    found = run_posterior(HOURS, elapsed_s=10000.0)

    assert found.total_s.low > 10000
    assert found.left_s.mid > 0


def test_a_job_that_outlives_its_plan_may_go_on_for_as_long_again() -> None:
    found = run_posterior(HOURS, elapsed_s=20 * 3600.0)

    assert found.outside
    assert found.left_s.mid > 0
    assert found.left_s.high > 600


def test_progress_narrows_what_is_left() -> None:
    plan = run_posterior(HOURS, elapsed_s=3000.0)
    seen = run_posterior(HOURS, elapsed_s=3000.0, marks=steady(6000.0, 3000.0))

    assert seen.left_s.mid == pytest.approx(3000, rel=0.1)
    assert seen.left_s.high - seen.left_s.low < 0.3 * (plan.left_s.high - plan.left_s.low)


def test_progress_that_contradicts_the_plan_wins() -> None:
    found = run_posterior(HOURS, elapsed_s=3600.0, marks=steady(360000.0, 3600.0))

    assert found.total_s.mid > 200000
    assert found.outside
    assert found.basis == "its progress: its plan was wrong"


def test_a_job_that_resumes_counts_only_what_was_left() -> None:
    found = run_posterior(HOURS, elapsed_s=0.0, from_share=0.75)

    assert found.total_s.mid == pytest.approx(1800, rel=0.02)


@pytest.mark.parametrize(
    "marks",
    [
        (Mark(t_s=100.0, done_share=1.0),),
        (Mark(t_s=100.0, done_share=-0.5), Mark(t_s=200.0, done_share=7.0)),
        (Mark(t_s=-100.0, done_share=0.5),),
        (Mark(t_s=100.0, done_share=0.005),),
    ],
)
def test_progress_that_no_job_could_have_made_is_not_believed(marks: tuple[Mark, ...]) -> None:
    plain = run_posterior(HOURS, elapsed_s=300.0)

    assert run_posterior(HOURS, elapsed_s=300.0, marks=marks).total_s == plain.total_s


def test_a_job_whose_pace_changes_is_believed_less() -> None:
    fast = steady(3000.0, 1500.0)
    slow = tuple(Mark(t_s=1500.0 + 60.0 * i, done_share=0.5 + 0.002 * i) for i in range(1, 51))
    even = run_posterior(HOURS, elapsed_s=4500.0, marks=steady(7500.0, 4500.0))

    found = run_posterior(HOURS, elapsed_s=4500.0, marks=(*fast, *slow))

    assert found.left_s.high / found.left_s.low > 2 * even.left_s.high / even.left_s.low


def test_the_chance_to_end_in_time_grows_with_time() -> None:
    found = run_posterior(HOURS, elapsed_s=600.0, marks=steady(6000.0, 600.0))

    chances = [found.chance_within(left_s, 600.0) for left_s in (-700.0, 0.0, 3000.0, 9000.0, 9e9)]

    assert chances == sorted(chances)
    assert chances[0] == 0.0
    assert chances[-1] == pytest.approx(1.0)


def test_nine_of_ten_jobs_end_within_their_limits() -> None:
    random = np.random.default_rng(3)
    held, counted = 0, 0
    for _ in range(400):
        total_s = exp(np.log(7200) + random.standard_normal() * np.log(2) / 1.6449)
        at_s = float(random.uniform(0.05, 0.9)) * total_s
        pace = np.maximum(1 + 0.15 * random.standard_normal(200), 0.1)
        done = np.append(0.0, np.cumsum(pace) / pace.sum())
        times = np.linspace(0.0, total_s, 201)
        marks = tuple(
            Mark(t_s=float(t), done_share=float(share))
            for t, share in zip(times[1:], done[1:], strict=True)
            if t <= at_s
        )
        found = run_posterior(HOURS, elapsed_s=at_s, marks=marks)
        held += found.total_s.low <= total_s <= found.total_s.high
        counted += 1

    assert held / counted > 0.86


@given(
    elapsed_s=st.floats(0, 1e7),
    shares=st.lists(st.floats(-1, 2), max_size=6),
    from_share=st.floats(0, 1),
)
def test_whatever_a_script_reports_there_is_an_ordered_answer(
    elapsed_s: float, shares: list[float], from_share: float
) -> None:
    marks = tuple(Mark(t_s=60.0 * i, done_share=share) for i, share in enumerate(shares))

    found = run_posterior(HOURS, elapsed_s=elapsed_s, marks=marks, from_share=from_share)

    assert 0 <= found.left_s.low <= found.left_s.mid <= found.left_s.high < float("inf")
    assert found.total_s.high >= elapsed_s


def test_a_job_that_says_99_percent_for_hours_is_not_near_its_end_for_sure() -> None:
    planned = Range(low=3600.0, mid=7200.0, high=14_400.0)
    honest = [Mark(t_s=60.0 * i, done_share=60.0 * i / 7272.0) for i in range(1, 121)]
    liar = [Mark(t_s=60.0 * i, done_share=min(0.5 * i, 0.99)) for i in range(1, 121)]

    sure = run_posterior(planned, elapsed_s=7200.0, marks=honest)
    wide = run_posterior(planned, elapsed_s=7200.0, marks=liar)

    assert sure.left_s.high < 600.0
    assert wide.left_s.high > 5 * sure.left_s.high
    assert wide.chance_within(300.0, 7200.0) < 0.6 < sure.chance_within(300.0, 7200.0)


def test_a_job_that_stops_reporting_is_not_expected_to_go_on_at_its_pace() -> None:
    planned = Range(low=3600.0, mid=7200.0, high=14_400.0)
    reported = [Mark(t_s=60.0 * i, done_share=0.02 * i) for i in range(1, 26)]

    talking = run_posterior(planned, elapsed_s=1500.0, marks=reported)
    silent = run_posterior(planned, elapsed_s=6000.0, marks=reported)

    assert talking.left_s.high < 2400.0
    assert silent.left_s.high > 4000.0
