"""How tenants share, by hand: who waits for whom, who is stopped for whom."""

from __future__ import annotations

from typing import Any

import pytest

from sim.lab.rigid.small_cases import run
from steward.model.replay import Replay
from steward.model.trace import Trace, trace_of

HALVES = {"a": 4.0, "b": 4.0}  # of eight GPUs
Row = tuple[float, float, float, str]  # submit, duration, GPUs, tenant


def jobs(*rows: Row, **columns: Any) -> Trace:
    return trace_of(
        "by hand",
        submit_s=[row[0] for row in rows],
        duration_s=[row[1] for row in rows],
        gpus=[row[2] for row in rows],
        tenant=[row[3] for row in rows],
        **columns,
    )


def starts(made: Replay) -> list[float]:
    return [round(float(t_s), 6) for t_s in made.start_s]


def test_static_quotas_leave_idle_what_nobody_of_their_own_wants() -> None:
    trace = jobs((0, 100, 4, "a"), (1, 100, 4, "a"), (10, 50, 4, "b"))

    made = run(trace, 8, "static-quota", quota=HALVES)

    assert starts(made) == [0, 100, 10]


def test_kueue_lends_idle_quota_and_reclaims_it_from_the_youngest_borrower() -> None:
    trace = jobs((0, 100, 4, "a"), (1, 100, 4, "a"), (10, 50, 4, "b"))

    made = run(trace, 8, "kueue", quota=HALVES)

    assert starts(made) == [0, 1, 10]
    assert made.end_s.tolist() == [100, 151, 60]  # the second ran 1..10, then from 60 on
    assert made.preemptions.tolist() == [0, 1, 0]


def test_kueue_stops_no_more_than_it_needs_to_reclaim() -> None:
    trace = jobs((0, 100, 4, "a"), (1, 100, 1, "a"), (2, 100, 1, "a"), (10, 50, 3, "b"))

    made = run(trace, 8, "kueue", quota=HALVES)

    assert made.preemptions.tolist() == [0, 0, 1, 0]
    assert made.start_s[3] == 10


def test_kueue_serves_heads_within_quota_before_older_ones_that_would_borrow() -> None:
    trace = jobs((0, 100, 2, "a"), (0, 10, 2, "b"), (1, 10, 2, "a"), (2, 10, 2, "b"))

    made = run(trace, 4, "kueue", quota={"a": 2.0, "b": 2.0})

    assert starts(made) == [0, 0, 20, 10]


def test_kueue_stops_nobody_for_a_job_that_would_borrow() -> None:
    trace = jobs((0, 100, 4, "a"), (0, 100, 4, "b"), (1, 10, 4, "b"))

    made = run(trace, 8, "kueue", quota=HALVES)

    assert starts(made) == [0, 0, 100]
    assert not made.preemptions.any()


def test_drf_fills_shares_by_weight() -> None:
    trace = jobs(*[(0.0, 10.0, 1.0, "a")] * 4, *[(0.0, 10.0, 1.0, "b")] * 4)

    made = run(trace, 4, "drf", quota={"a": 3.0, "b": 1.0})

    assert starts(made) == [0, 0, 0, 10, 0, 10, 10, 10]


def test_multifactor_serves_whoever_has_used_least() -> None:
    trace = jobs((0, 100, 2, "a"), (1, 10, 2, "a"), (50, 10, 2, "b"))

    made = run(trace, 2, "multifactor", quota={"a": 1.0, "b": 1.0})

    assert starts(made) == [0, 110, 100]


def test_multifactor_serves_the_older_job_where_nobody_has_used_anything() -> None:
    trace = jobs((0, 10, 2, "c"), (1, 10, 2, "b"), (2, 10, 2, "a"))

    made = run(trace, 2, "multifactor", quota={"a": 1.0, "b": 1.0, "c": 1.0})

    assert starts(made) == [0, 10, 20]


def test_commons_lends_idle_guarantees_and_gives_them_back_at_once() -> None:
    trace = jobs((0, 100, 4, "a"), (1, 100, 4, "a"), (10, 50, 4, "b"))

    made = run(trace, 8, "commons", quota=HALVES)

    assert starts(made) == [0, 1, 10]
    assert made.preemptions.tolist() == [0, 1, 0]


@pytest.mark.parametrize(("quota", "a_starts"), [((1.0, 1.0), 4), ((3.0, 1.0), 6)])
def test_commons_shares_what_is_common_as_it_is_guaranteed(
    quota: tuple[float, float], a_starts: int
) -> None:
    trace = jobs(*[(0.0, 1000.0, 1.0, "a")] * 8, *[(0.0, 1000.0, 1.0, "b")] * 8)

    made = run(trace, 8, "commons", quota={"a": quota[0], "b": quota[1]})

    assert (made.start_s[:8] == 0).sum() == a_starts
    assert (made.start_s[8:] == 0).sum() == 8 - a_starts


LONG_AND_SHORT = jobs((0, 10_000, 1, "a"), (5000, 30, 1, "a"))


def test_commons_lets_a_new_job_pass_one_that_has_run_for_long() -> None:
    made = run(LONG_AND_SHORT, 1, "commons")

    assert starts(made) == [0, 5000]
    assert made.end_s.tolist() == [10_030, 5030]


@pytest.mark.parametrize(("checkpoint_s", "stops"), [(249.0, 1), (600.0, 0)])
def test_commons_stops_nobody_whose_stops_would_cost_too_much_of_its_time(
    checkpoint_s: float, stops: int
) -> None:
    made = run(LONG_AND_SHORT, 1, "commons", checkpoint_s=checkpoint_s)  # patience is 5 %

    assert made.preemptions.tolist() == [stops, 0]
    assert made.lost_s.tolist() == [stops * checkpoint_s, 0]


def test_commons_stops_only_for_those_that_lead_by_enough() -> None:
    made = run(LONG_AND_SHORT, 1, "commons", policy_options={"commons.lead": 1e9})

    assert starts(made) == [0, 10_000]


def history(policy: str) -> Replay:
    """Replay a slow user's job and a quick one's after a month in which they showed how they are.

    When they come, a third one runs.
    """
    often = range(30)
    past: list[Row] = [(i * 10_000.0, 30.0, 1.0, "a") for i in often]
    past += [(i * 10_000.0 + 100.0, 7200.0, 1.0, "a") for i in often]
    now: list[Row] = [(299_990, 5000, 1, "a"), (300_000, 7200, 1, "a"), (300_001, 30, 1, "a")]
    users = ["quick"] * 30 + ["slow"] * 30 + ["slow", "slow", "quick"]
    return run(jobs(*past, *now, user=users), 1, policy)


def test_qssf_serves_the_user_first_whose_jobs_have_been_short() -> None:
    assert starts(history("qssf"))[-3:] == [299_990, 305_020, 304_990]


def test_commons_starts_jobs_at_once_that_have_always_been_short() -> None:
    made = history("commons")

    assert starts(made)[-1] == 300_001
    assert made.preemptions[-1] == 0
