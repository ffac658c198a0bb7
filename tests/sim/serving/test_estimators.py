"""A simulated gateway asks an estimator as a live one does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from steward.decide.serving.fcfs import Fcfs
from steward.learn.estimators.serving.learned_waits import LearnedWaits
from steward.model.serving.forecasts import ServingForecasts
from steward.model.serving.instance_type import InstanceType, StepTimes
from steward.model.serving.requests import requests_of
from steward.model.serving.view import Dispatch, ServingView
from steward.sim.serving.simulate import Fleet, simulate

KIND = InstanceType(
    name="small", model="m", step_times=StepTimes(fixed_s=0.01), kv_tokens=4096, max_sequences=2
)
TRACE = requests_of("t", arrival_s=np.zeros(20), prompt_tokens=[8] * 20, output_tokens=[5, 9] * 10)
FLEET = Fleet(types=(KIND,), instances=(0,))


@dataclass(kw_only=True)
class Recorder:
    """Passes on to an estimator what it is given, and keeps it."""

    inner: LearnedWaits = field(default_factory=LearnedWaits)
    ended: list[int] = field(default_factory=list)
    seen: list[ServingForecasts | None] = field(default_factory=list)
    name: str = "recorder"

    def learn(self, view: ServingView, ended: Any) -> None:
        assert np.isfinite(view.requests.finish_s[ended]).all()
        self.ended += ended.tolist()
        self.inner.learn(view, ended)

    def predict(self, view: ServingView) -> ServingForecasts:
        return self.inner.predict(view)

    def dispatch(self, view: ServingView) -> Dispatch:
        self.seen.append(view.forecasts)
        return Fcfs().dispatch(view)


def test_what_ended_is_handed_to_the_estimator_once_and_by_time() -> None:
    recorder = Recorder()

    run = simulate(TRACE, FLEET, Fcfs(), estimator=recorder)

    assert len(recorder.ended) == len(set(recorder.ended)) > 5
    assert np.all(np.diff(run.finish_s[recorder.ended]) >= 0)


def test_dispatchers_see_forecasts_only_with_an_estimator() -> None:
    without, with_one = Recorder(), Recorder()

    plain = simulate(TRACE, FLEET, without)
    estimated = simulate(TRACE, FLEET, with_one, estimator=with_one)

    assert all(each is None for each in without.seen)
    assert all(each is not None and each.work_s.shape == (1, 20) for each in with_one.seen)
    assert np.array_equal(plain.finish_s, estimated.finish_s)
