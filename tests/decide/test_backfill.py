"""Reservations of conservative backfill, and the holes before them."""

from __future__ import annotations

from steward.model.machines import machines_of
from steward.model.trace import trace_of
from steward.sim.lab.run import replay
from steward.sim.lab.settings import LabSettings

HOUR_S = 3600.0


def test_conservative_backfill_fills_the_hole_before_a_reservation() -> None:
    # 4 of 8 GPUs are busy for long, the head asks for all 8: an hour on 4 fits before its date.
    trace = trace_of(
        "hole",
        submit_s=[0.0, 100.0, 200.0],
        duration_s=[100_000.0, 600.0, HOUR_S - 60.0],
        gpus=[4.0, 8.0, 4.0],
        time_limit_s=[100_000.0, HOUR_S, HOUR_S],
    )

    found = replay(trace, machines_of(8), "conservative-backfill", LabSettings())

    assert found.start_s.tolist() == [0.0, 100_000.0, 200.0]


def test_conservative_backfill_does_not_move_the_date_of_the_head() -> None:
    trace = trace_of(
        "too long",
        submit_s=[0.0, 100.0, 200.0],
        duration_s=[1000.0, 600.0, 900.0],
        gpus=[4.0, 8.0, 4.0],
        time_limit_s=[1000.0, HOUR_S, HOUR_S],
    )

    found = replay(trace, machines_of(8), "conservative-backfill", LabSettings())

    assert found.start_s.tolist() == [0.0, 1000.0, 1600.0]


def test_a_backfill_that_comes_too_early_is_made_up_for_at_its_interval() -> None:
    trace = trace_of(
        "early",
        submit_s=[0.0, 1.0, 2.0],
        duration_s=[100_000.0, 600.0, 60.0],
        gpus=[4.0, 8.0, 4.0],
        time_limit_s=[100_000.0, HOUR_S, HOUR_S],
    )

    found = replay(
        trace,
        machines_of(8),
        "conservative-backfill",
        LabSettings(policy_options={"conservative-backfill.interval_s": 30.0}),
    )

    assert found.start_s.tolist() == [0.0, 100_000.0, 30.0]


def test_time_limits_of_the_trace_count_where_it_has_them() -> None:
    # By its limit of a minute the last job ends before the date of the head; by a usual one, not.
    times = {"submit_s": [0.0, 100.0, 200.0], "duration_s": [500.0, 600.0, 50.0]}
    sizes = {"gpus": [4.0, 8.0, 4.0]}
    known = trace_of("known", **times, **sizes, time_limit_s=[600.0, 600.0, 60.0])
    unknown = trace_of("unknown", **times, **sizes, time_limit_s=[600.0, 600.0, float("nan")])

    starts = [
        replay(each, machines_of(8), "easy-backfill", LabSettings()).start_s[2]
        for each in (known, unknown)
    ]

    assert starts == [200.0, 1100.0]
