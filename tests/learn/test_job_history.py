"""Run times from history: contexts mixed, censoring, cold start, limits, remaining time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factories import job, node, view
from steward.errors import StewardError
from steward.learn.estimators.job_history import JobHistory, was_cut_off
from steward.learn.run_time_history import RunTimeHistory
from steward.learn.trace_history import learn_trace
from steward.model.forecast import (
    RUN_LEFT_S,
    RUN_LIKELY_S,
    RUN_LIMITS_S,
    RUN_RANK_GPU_S,
    Forecast,
    ForecastColumn,
)
from steward.model.identity import TenantId
from steward.model.job import Job, JobRequest, JobShape, JobState
from steward.model.trace import Trace, trace_of

GPU = "n1/gpu0"


def history_of(**columns: Sequence[Any]) -> JobHistory:
    """Return what was learned from jobs that came one after another."""
    learner = JobHistory()
    learner.learn_trace(one_after_another(**columns))
    return learner


def one_after_another(*, duration_s: Sequence[float], **columns: Sequence[Any]) -> Trace:
    submit_s = np.concatenate(([0.0], np.cumsum(np.asarray(duration_s, float) + 60.0)[:-1]))
    given: dict[str, Any] = {"gpus": [1.0] * len(duration_s)} | columns
    return trace_of("t", submit_s=submit_s, duration_s=duration_s, **given)


def asked(learner: JobHistory, *, gpus: int = 1, **what: Any) -> dict[str, Forecast]:
    request = JobRequest(shape=JobShape(gpus=gpus), tenant=TenantId(what.pop("tenant", "")), **what)
    return {each.quantity: each for each in learner.estimate(request)}


def ended(seconds: float, **changes: Any) -> Job:
    over = {"state": JobState.COMPLETED, "start_s": 0.0, "end_s": seconds}
    return job("gone", **{**over, **changes})


def believed(learner: JobHistory, *jobs: Job, t_s: float) -> dict[str, ForecastColumn]:
    seen = view(node("n1", 2), jobs=jobs, t_s=t_s)
    return {column.quantity: column for column in learner.predict(seen)}


def test_what_tells_jobs_apart_is_found_without_being_named() -> None:
    """Users here run short and long jobs; only the name tells which."""
    names, users = ["eval", "train"] * 150, ["ada", "bob", "cyd"] * 100
    learner = history_of(duration_s=[300.0, 30_000.0] * 150, user=users, model=names)

    short, long = (asked(learner, user="dan", name=name)[RUN_LIMITS_S] for name in names[:2])

    assert short.low <= 300 <= short.high < 3000
    assert 3000 < long.low <= 30_000 <= long.high


def test_a_user_who_changed_is_followed_at_once() -> None:
    learner = history_of(duration_s=[600.0] * 200 + [20_000.0] * 6, user=["ada"] * 206)

    found = asked(learner, user="ada")[RUN_LIMITS_S]

    assert found.mid > 6000


def test_jobs_with_similar_scripts_tell_of_one_another() -> None:
    script = "python train.py --model bert --data /scratch/wiki --precision bf16 --epochs"
    learner, seen = JobHistory(), view(node("n1", 2))
    for number in range(30):
        slow = replace(ended(30_000.0, user=f"u{number}"), script=f"{script} {number}")
        quick = replace(ended(200.0, user=f"v{number}"), script="jupyter lab --port 8888")
        learner.learn(replace(seen, ended=(slow, quick)), ())

    like = asked(learner, user="new", script=f"{script} 3 --resume", tenant="a")[RUN_LIMITS_S]
    other = asked(learner, user="new", script="jupyter lab --port 9000", tenant="a")[RUN_LIMITS_S]

    assert other.mid < 1000
    assert like.mid > 5000


def test_jobs_that_were_cut_off_count_as_longer() -> None:
    draws = np.random.default_rng(1)
    true_s = 3600.0 * np.exp(draws.standard_normal(600))
    limit_s = float(np.quantile(true_s, 0.6))
    cut = (true_s > limit_s).astype(float)
    shown_s = np.minimum(true_s, limit_s)

    right = asked(history_of(duration_s=shown_s, cut_off=cut))[RUN_LIMITS_S]
    wrong = asked(history_of(duration_s=shown_s[cut == 0]))[RUN_LIMITS_S]

    assert 0.7 < right.mid / 3600 < 1.4
    assert wrong.mid < right.mid
    assert right.high > 1.3 * limit_s


def test_jobs_that_still_run_are_evidence_too() -> None:
    learner, seen = JobHistory(), view(node("n1", 2))
    jobs = [job(f"j{i}", on=[GPU], start_s=0.0) for i in range(20)]
    learner.learn(view(node("n1", 2), jobs=jobs, t_s=0.0), ())
    learner.learn(view(node("n1", 2), jobs=jobs, t_s=50_000.0), ())

    with_running = asked(learner, tenant="a")[RUN_LIMITS_S]

    fresh = JobHistory()
    fresh.learn(replace(seen, ended=(ended(60.0),)), ())
    assert with_running.mid > 20_000
    assert asked(fresh, tenant="a")[RUN_LIMITS_S].mid < 5000


def test_before_any_job_has_ended_the_time_limit_answers() -> None:
    assert asked(JobHistory()) == {}

    found = asked(JobHistory(), time_limit_s=600.0)

    assert found[RUN_LIMITS_S].high <= 600.0
    assert "from the time limit alone" in found[RUN_LIMITS_S].basis


def test_an_estimate_names_how_many_jobs_would_pass_the_time_limit() -> None:
    learner = history_of(duration_s=[7200.0] * 100)

    found = asked(learner, time_limit_s=3600.0)[RUN_LEFT_S]

    assert found.high == 3600.0
    assert "of such jobs would run past the time limit" in found.basis


def test_limits_hold_nine_of_ten_jobs_whatever_the_forecast() -> None:
    draws = np.random.default_rng(3)
    duration_s = np.exp(8.0 + 1.5 * draws.standard_t(3, 2500)).clip(2.0, 1e7)
    history, held = RunTimeHistory(classes=3000, memory=300.0, quick=8.0), []

    for row, made in learn_trace(history, one_after_another(duration_s=duration_s)):
        held.append(made.low_s <= duration_s[row] <= made.high_s)

    assert 0.88 <= np.mean(held) <= 0.92


def test_who_has_survived_long_will_run_on() -> None:
    learner = history_of(duration_s=[100.0, 50_000.0, 100.0] * 40)

    new = believed(learner, job("a"), t_s=10.0)
    late = believed(learner, job("b", on=[GPU], start_s=0.0), t_s=2000.0)

    assert new[RUN_LEFT_S].low[0] < 200
    assert late[RUN_LEFT_S].low[0] > 10_000
    assert late[RUN_RANK_GPU_S].mid[0] > 5 * new[RUN_RANK_GPU_S].mid[0]


def test_the_likeliest_value_is_one_that_was_seen_and_not_between_two() -> None:
    learner = history_of(duration_s=[100.0, 60_000.0, 100.0] * 60)

    found = asked(learner)[RUN_LIKELY_S]

    assert 50 <= found.mid <= 200


@pytest.mark.parametrize(
    ("state", "why", "limit_s", "expected"),
    [
        (JobState.COMPLETED, "done", 1000.0, False),
        (JobState.CANCELLED, "by ann", None, True),
        (JobState.FAILED, "out of memory", None, True),
        (JobState.FAILED, "timeout", None, True),
        (JobState.FAILED, "failed, exit code 1", 1000.0, True),
        (JobState.FAILED, "failed, exit code 1", 9000.0, False),
    ],
)
def test_a_job_is_cut_off_by_people_limits_and_memory(
    state: JobState, why: str, limit_s: float | None, *, expected: bool
) -> None:
    over = job("j", start_s=0.0, end_s=1000.0)
    over = over.changed(0.0, JobState.RUNNING, "started").changed(1000.0, state, why)

    assert was_cut_off(replace(over, time_limit_s=limit_s)) is expected


def test_a_restart_counts_no_level_of_a_running_job_twice() -> None:
    runs = job("j", on=[GPU], start_s=0.0)
    learner = JobHistory()
    for t_s in (0.0, 5000.0):
        learner.learn(view(node("n1", 2), jobs=[runs], t_s=t_s), ())
    again = JobHistory()
    again.restore_state(learner.save_state())

    again.learn(view(node("n1", 2), jobs=[runs], t_s=5000.0), ())

    assert again.save_state()["lessons"] == learner.save_state()["lessons"]


def test_memory_is_bounded_and_what_is_dropped_is_what_was_not_used() -> None:
    learner = JobHistory(classes=200)
    names = [f"job-{chr(97 + i % 26)}{chr(97 + i // 26 % 26)}" for i in range(600)]
    learner.learn_trace(
        one_after_another(
            duration_s=[500.0] * 600 + [9000.0] * 20,
            model=[*names, *["kept"] * 20],
            user=["ada"] * 620,
        )
    )

    assert len(learner.save_state()["contexts"]) == 200
    assert asked(learner, user="ada", name="kept")[RUN_LIMITS_S].mid > 4000


def test_a_state_of_other_options_is_refused_and_changes_nothing() -> None:
    wide = history_of(duration_s=[100.0] * 30, user=[f"u{i:c}" for i in range(97, 127)])
    small = JobHistory(classes=30)

    with pytest.raises(ValueError, match="other options"):
        small.restore_state(wide.save_state())

    assert asked(small) == {}


@pytest.mark.parametrize("options", [{"classes": 5}, {"memory": 0.5}, {"quick": 0}])
def test_options_that_make_no_sense_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(StewardError, match="job-history: classes is"):
        JobHistory(**options)  # type: ignore[arg-type]


@settings(deadline=None, max_examples=25)
@given(
    duration_s=st.lists(st.floats(1.0, 1e9), min_size=1, max_size=30),
    ran_s=st.floats(0.0, 1e8),
)
def test_whatever_was_seen_quantiles_are_in_order_and_nothing_is_negative(
    duration_s: list[float], ran_s: float
) -> None:
    learner = history_of(duration_s=duration_s, user=["ada"] * len(duration_s))

    found = believed(learner, job("j", on=[GPU], start_s=0.0), t_s=ran_s)

    for column in found.values():
        assert np.all(column.low <= column.mid)
        assert np.all(column.mid <= column.high)
        assert np.all(column.low >= 0.0)
        assert np.all(np.isfinite(column.high))
