"""The compiled engine against a slow and obvious one: who starts and ends when, to the second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sim.lab.rigid.slow_reference import (
    HOUR,
    Easy,
    InLine,
    Job,
    LeastShare,
    Levels,
    Policy,
    Shortest,
    WithinQuota,
    slow_replay,
)
from sim.lab.rigid.small_cases import TENANTS, rows, run, trace_from
from steward.model.trace import Trace

GPUS = st.integers(1, 16)
ALL_FIT_S = st.sampled_from([600, HOUR, HOUR + 1, 2 * HOUR, 4 * HOUR, 10 * HOUR, 30 * HOUR])
QUOTA = st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 4))


def assert_same(trace: Trace, gpus: int, policy: str, slow: Policy, **options: Any) -> None:
    quota = options.pop("quota", None)
    told = {f"{policy}.{name}": value for name, value in options.items()}
    fast = run(trace, gpus, policy, quota=quota, policy_options=told)
    expected = slow_replay(trace, gpus, slow)
    assume(not getattr(slow, "tied", False))

    assert list(zip(_whole(fast.start_s), _whole(fast.end_s), fast.preemptions, strict=True)) == [
        (job.first_s, job.end_s, job.stops) for job in expected
    ]


def _whole(times_s: Any) -> list[int | None]:
    """Return seconds, which have to be whole ones; None: never."""
    assert all(np.isnan(t_s) or t_s == int(t_s) for t_s in times_s)
    return [None if np.isnan(t_s) else int(t_s) for t_s in times_s]


def _length(job: Job) -> int:
    return job.duration_s


ORDERED: dict[str, Callable[[], Policy]] = {
    "fifo": InLine,
    "fit-first": lambda: InLine(strict=False),
    "sjf": lambda: InLine(key=_length),
    "srtf": Shortest,
    "srsf": lambda: Shortest(by_gpus=True),
}


@pytest.mark.parametrize("policy", ORDERED)
@settings(max_examples=40)
@given(jobs=rows(), gpus=GPUS)
def test_one_order_over_all_jobs_is_what_the_slow_simulator_says(
    policy: str, jobs: Any, gpus: int
) -> None:
    assert_same(trace_from(jobs, most_gpus=gpus), gpus, policy, ORDERED[policy]())


@pytest.mark.parametrize("thresholds", [(), (10,), (10, 25), (5, 6, 7)])
@settings(max_examples=30)
@given(jobs=rows(), gpus=GPUS)
def test_levels_of_run_time_are_left_as_the_slow_simulator_says(
    thresholds: tuple[int, ...], jobs: Any, gpus: int
) -> None:
    trace = trace_from(jobs, most_gpus=gpus)

    assert_same(trace, gpus, "las", Levels(thresholds), thresholds_s=thresholds)


# Thresholds that every size divides: then even the last demotion falls on a whole second.
@pytest.mark.parametrize("promote", [0, 1, 3])
@settings(max_examples=40)
@given(
    jobs=rows(durations_s=st.sampled_from([1, 7, 30, 60, 61, 100, 240, 500])),
    gpus=st.sampled_from([1, 2, 4, 8, 16]),
)
def test_levels_of_gpu_time_and_new_starts_are_as_the_slow_simulator_says(
    promote: int, jobs: Any, gpus: int
) -> None:
    trace = trace_from(jobs, most_gpus=gpus)
    slow = Levels((240, 960), by_gpus=True, promote=promote)

    options = {"thresholds_gpu_s": (240, 960), "promote": float(promote)}
    assert_same(trace, gpus, "tiresias", slow, **options)


@settings(max_examples=60)
@given(jobs=rows(gaps_s=(0, 60, 1000, 5000), durations_s=ALL_FIT_S), gpus=GPUS)
def test_easy_backfill_moves_nobody_at_the_head_of_the_queue(jobs: Any, gpus: int) -> None:
    assert_same(trace_from(jobs, most_gpus=gpus), gpus, "easy-backfill", Easy())


@settings(max_examples=40)
@given(jobs=rows(), shares=QUOTA)
def test_static_quotas_are_separate_clusters(jobs: Any, shares: tuple[int, ...]) -> None:
    trace = trace_from(jobs)
    quota = dict(zip(TENANTS, shares, strict=True))
    mine = [quota[name] for name in trace.tenants]

    told = {name: quota[name] for name in trace.tenants}
    assert_same(trace, sum(shares), "static-quota", WithinQuota(quota=mine), quota=told)


@settings(max_examples=40)
@given(jobs=rows(), shares=QUOTA)
def test_dominant_shares_are_filled_up_evenly(jobs: Any, shares: tuple[int, ...]) -> None:
    gpus = sum(shares)
    trace = trace_from(jobs, most_gpus=gpus)
    quota = dict(zip(TENANTS, shares, strict=True))
    mine = [quota[name] for name in trace.tenants]

    told = {name: quota[name] for name in trace.tenants}
    assert_same(trace, gpus, "drf", LeastShare(weight=mine), quota=told)
