"""Delay sensitivity: what is learnt from moments, and what traits say before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from beds.fabric_views import LINE, applications, view
from steward.learn.estimators.delay_sensitivity import DelaySensitivity
from steward.model.fabric.view import FabricView
from steward.model.forecast import About

CHAT = {"communication_share": 0.5, "collective_share": 0.0, "overlap_share": 0.0}


def _moments(
    slopes: dict[str, float], count: int = 60, *, noise: float = 0.01, seed: int = 0, **more: Any
) -> list[FabricView]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        rows = {}
        for name, slope in slopes.items():
            added_ms = rng.uniform(0, 0.2)
            rows[name] = {
                **CHAT,
                "application": name.split("-")[0],
                "delay_s": 2e-6 + added_ms / 1e3,
                "slowdown": np.exp(0.1 + slope * added_ms + rng.normal(0, noise)),
                **more,
            }
        found.append(view(applications(**rows)))
    return found


def _learnt(moments: list[FabricView]) -> DelaySensitivity:
    estimator = DelaySensitivity()
    for each in moments:
        estimator.learn(each, ())
    return estimator


def test_slopes_are_learnt_whatever_the_level_of_a_job_is() -> None:
    moments = _moments({"a": 8.0, "b": 0.5})
    delay, cap = _learnt(moments).predict(moments[-1])

    assert delay.mid == pytest.approx([8.0, 0.5], abs=0.4)
    assert delay.about is About.APPLICATIONS
    assert ((delay.low <= delay.mid) & (delay.mid <= delay.high)).all()
    assert cap.mid == pytest.approx([1.0, 1.0])


def test_jobs_of_one_program_learn_from_one_another_and_a_new_one_begins_there() -> None:
    estimator = _learnt(_moments({"a-1": 6.0, "a-2": 6.0}))
    new = view(applications(**{"a-3": {**CHAT, "application": "a"}}))
    delay, _ = estimator.predict(new)

    assert delay.mid == pytest.approx([6.0], abs=0.4)


def test_a_program_never_seen_gets_what_its_traits_say_with_a_wide_interval() -> None:
    known = _learnt(_moments({"a": 8.0}))
    stranger = view(applications(x=CHAT))
    seen = known.predict(_moments({"a": 8.0}, 1)[0])[0]
    guess = known.predict(stranger)[0]

    assert guess.high[0] - guess.low[0] > 3 * (seen.high[0] - seen.low[0])
    assert DelaySensitivity().predict(stranger)[0].mid[0] == pytest.approx(250.0, rel=0.1)


def test_caps_teach_what_caps_cost() -> None:
    rng = np.random.default_rng(1)
    estimator = DelaySensitivity()
    for _ in range(60):
        share = float(rng.uniform(0.2, 1.0))
        row = {
            "communication_share": 0.5, "collective_share": 1.0, "overlap_share": 0.0,
            "cap_bytes_per_s": share * LINE, "delay_s": 2e-6 + rng.uniform(0, 1e-4),
            "slowdown": 0.5 + 0.5 / share,
        }  # fmt: skip
        estimator.learn(view(applications(a=row)), ())
    slope = estimator.posterior("a").interval(1)

    assert slope[1] == pytest.approx(1.0, abs=0.05)
    assert slope[2] - slope[0] < 0.2


def test_what_is_unknown_teaches_nothing() -> None:
    moments = _moments({"a": 5.0}, slowdown=np.nan)
    estimator = _learnt(moments)

    assert estimator.posterior("a").samples == 0
    assert estimator.predict(replace(moments[0], endpoints={}))[0].mid.shape == (1,)
    assert estimator.estimate(None) == ()  # type: ignore[arg-type]


def test_the_state_is_kept_over_a_restart() -> None:
    moments = _moments({"a": 8.0, "b": 1.0})
    first, second = _learnt(moments), DelaySensitivity()
    second.restore_state(first.save_state())

    mine, theirs = first.predict(moments[0])[0], second.predict(moments[0])[0]
    assert theirs.mid == pytest.approx(mine.mid)
    assert theirs.high == pytest.approx(mine.high)


def test_jobs_that_ended_are_put_together_and_memory_stays_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("steward.learn.estimators.delay_sensitivity.MOST_JOBS", 3)
    estimator = DelaySensitivity()
    for job in range(12):
        for each in _moments({f"a-{job}": 6.0}, 8, seed=job):
            estimator.learn(each, ())

    assert len(estimator.save_state()["names"]) == 1
    assert len(estimator._jobs) <= 4
    assert estimator.posterior("a").samples == 96
    assert estimator.posterior("a").mean[0] == pytest.approx(6.0, abs=0.5)
