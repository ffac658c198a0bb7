"""Intervals hold what they should, and what policies share cancels in their differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.model.machines import machines_of
from steward.model.replay import Replay
from steward.sim.lab.intervals import JobSample, blocks_of, difference, drawn, interval, sample_of
from steward.sim.lab.judge.judgement import judged_jobs
from tiny_replays import first_come, small_replay, small_trace


def sample(replay: Replay) -> JobSample:
    measures, times = judged_jobs(replay)
    return sample_of(replay, times, measures)


def later(replay: Replay, by_s: float) -> Replay:
    """Return the replay in which every job ended and ran later."""
    table = replay.segments
    moved = replace(table, start_s=table.start_s + by_s, stop_s=table.stop_s + by_s)
    return replace(replay, segments=moved, end_s=replay.end_s + by_s, start_s=replay.start_s + by_s)


def test_every_figure_lies_within_its_interval() -> None:
    replay = small_replay(200)
    figures = judged_jobs(replay)[0].figures()

    found = drawn([{"fifo": sample(replay)}])["fifo"]

    for name, values in found.items():
        low, high = interval(values)
        assert low <= figures[name] <= high, name


def test_the_interval_of_a_mean_is_that_of_statistics() -> None:
    trace = replace(small_trace(400, tenants=0), submit_s=np.arange(400) * 1e6)

    found = drawn([{"fifo": sample(first_come(trace, machines_of(8)))}])["fifo"]["jct_mean_s"]

    # No job waits, so blocks are independent: the textbook's error of a mean.
    error = trace.duration_s.std() / np.sqrt(len(trace))
    assert found.std() == pytest.approx(error, rel=0.25)
    assert found.mean() == pytest.approx(trace.duration_s.mean(), rel=0.02)


def test_a_constant_difference_is_certain() -> None:
    replay = small_replay(100)

    draws = drawn([{"a": sample(replay), "b": sample(later(replay, 60.0))}])
    found = difference(
        draws["b"]["jct_mean_s"], draws["a"]["jct_mean_s"], figure=160.0, other=100.0
    )

    assert found.by == 60.0
    assert (found.low, found.high) == (pytest.approx(60.0), pytest.approx(60.0))
    assert found.relative == pytest.approx(0.6)
    assert found.p < 0.002


def test_no_difference_is_no_finding() -> None:
    one = sample(small_replay(100))

    draws = drawn([{"a": one, "b": one}])
    found = difference(draws["b"]["jct_p99_s"], draws["a"]["jct_p99_s"], figure=5.0, other=5.0)

    assert (found.by, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)


def test_several_runs_are_drawn_as_well() -> None:
    runs = [{"a": sample(later(small_replay(40, seed=1), by_s))} for by_s in (0.0, 1000.0, 2000.0)]

    alone = drawn(runs[:1])["a"]["jct_mean_s"]
    together = drawn(runs)["a"]["jct_mean_s"]

    assert together.mean() == pytest.approx(alone.mean() + 1000.0, rel=0.1)
    assert together.std() > 4 * alone.std()


def test_a_seed_gives_the_same_draws() -> None:
    one = {"a": sample(small_replay(60))}

    first, again, other = (drawn([one], seed=seed)["a"]["wait_mean_s"] for seed in (3, 3, 4))

    assert (first == again).all()
    assert not (first == other).all()


def test_what_nobody_finished_has_no_interval() -> None:
    replay = small_replay(10)
    nothing = replace(replay, end_s=np.full(10, np.nan))

    found = drawn([{"a": sample(nothing)}])["a"]

    assert np.isnan(interval(found["jct_mean_s"])).all()
    assert np.isnan(interval(found["jct_p99_s"])).all()
    assert interval(found["unfinished"]) == (10.0, 10.0)


@given(jobs=st.integers(1, 5000))
def test_blocks_follow_each_other_and_differ_by_one_job_at_most(jobs: int) -> None:
    block = blocks_of(jobs)

    sizes = np.bincount(block)
    assert (np.diff(block) >= 0).all()
    assert sizes.max() - sizes.min() <= 1
    assert len(sizes) <= 64


@given(seed=st.integers(0, 20), q=st.sampled_from([("p50", 0.5), ("p99", 0.99)]))
@settings(max_examples=15)
def test_quantiles_of_draws_are_centred_on_the_quantile(seed: int, q: tuple[str, float]) -> None:
    replay = small_replay(300, seed=seed)

    found = drawn([{"a": sample(replay)}])["a"][f"jct_{q[0]}_s"]

    jct = replay.end_s - replay.trace.submit_s
    low, high = interval(found)
    assert low <= np.quantile(jct, q[1]) <= high
    assert set(np.unique(found)) <= set(jct)
