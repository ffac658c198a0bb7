from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from factories import job, node, view
from steward.learn.estimators.step_rates import StepRates
from steward.model.forecast import Forecast
from steward.model.job import Job, JobShape, JobState
from steward.model.view import ClusterView

ALONE = (job("j1", on=("n1/gpu0",)),)
BESIDE = (*ALONE, job("j2", on=("n1/gpu0",)))


@dataclass(kw_only=True)
class Training:
    """Steps of j1, as an estimator sees them every ten seconds."""

    rates: StepRates = field(default_factory=StepRates)
    t_s: float = 0.0
    steps: float = 0.0

    def run(self, jobs: Sequence[Job], *, speed: float, minutes: float = 2.0) -> ClusterView:
        for _ in range(round(minutes * 6)):
            self.t_s += 10.0
            self.steps += 10.0 * speed
            seen = view(node("n1"), jobs=jobs, t_s=self.t_s)
            counts = np.array([self.steps if each == "j1" else np.nan for each in seen.jobs.ids])
            times = np.full(len(counts), self.t_s)
            seen = replace(seen, jobs=replace(seen.jobs, step_count=counts, step_s=times))
            self.rates.learn(seen, ())
        return seen

    def belief(self, seen: ClusterView) -> Forecast:
        (column,) = self.rates.predict(seen)
        return column.row(0, "j1")


def test_a_job_is_compared_with_itself_before_a_neighbour_came() -> None:
    training = Training()
    training.run(ALONE, speed=2.0)

    found = training.belief(training.run(BESIDE, speed=1.5))

    assert found.mid == pytest.approx(0.25)
    assert 0.24 < found.low < found.mid < found.high < 0.26


def test_a_job_whose_gpus_become_slower_is_compared_with_its_earlier_windows() -> None:
    training = Training()
    training.run(ALONE, speed=2.0, minutes=4.0)

    assert training.belief(training.run(ALONE, speed=1.0)).mid == pytest.approx(0.5)


def test_windows_on_other_gpus_of_the_same_kind_count() -> None:
    training = Training()
    training.run((job("j1", on=("n1/gpu1",)),), speed=2.0)

    assert training.belief(training.run(ALONE, speed=1.0)).mid == pytest.approx(0.5)


def test_another_number_of_gpus_is_no_comparison() -> None:
    training = Training()
    training.run((job("j1", on=("n1/gpu0", "n1/gpu1")),), speed=4.0)

    assert np.isnan(training.belief(training.run(ALONE, speed=2.0)).mid)


def test_noise_widens_the_range() -> None:
    training = Training()
    for speed in (2.0, 1.2, 2.8, 1.7, 2.4, 1.4, 2.6, 2.1, 1.3, 2.9):
        training.run(ALONE, speed=speed, minutes=0.5)

    found = training.belief(training.run(BESIDE, speed=1.8))

    assert found.low == 0.0 < found.mid
    assert found.high > 0.05


def test_nothing_is_believed_before_there_are_enough_windows_of_both() -> None:
    training = Training()
    first = training.run(ALONE, speed=2.0)
    assert np.isnan(training.belief(first).mid)

    assert np.isnan(training.belief(training.run(BESIDE, speed=1.0, minutes=0.6)).mid)


def test_what_was_seen_last_under_other_conditions_is_not_the_present() -> None:
    training = Training()
    training.run(ALONE, speed=2.0)
    training.run(BESIDE, speed=1.0)

    seen = training.run(ALONE, speed=2.0, minutes=0.5)

    assert np.isnan(training.belief(seen).mid)
    elsewhere = view(node("n1"), jobs=BESIDE, t_s=training.t_s)
    counted = replace(elsewhere.jobs, step_count=np.array([1.0, np.nan]))
    assert np.isnan(training.belief(replace(elsewhere, jobs=counted)).mid)


def test_a_count_that_begins_anew_and_a_pause_are_no_speed() -> None:
    training = Training()
    training.run(ALONE, speed=2.0)
    training.steps = 0.0
    training.run(ALONE, speed=2.0)
    training.t_s += 3600.0

    found = training.belief(training.run(ALONE, speed=2.0))

    assert found.mid == pytest.approx(0.0)


def test_jobs_that_have_ended_and_the_oldest_conditions_are_forgotten() -> None:
    training = Training()
    for number in range(12):
        beside = job(f"k{number}", on=("n1/gpu0",))
        seen = training.run((*ALONE, beside), speed=1.0, minutes=1.0)
    assert len(training.rates.save_state()["jobs"]["j1"]["windows"]) == 8

    over = replace(ALONE[0], state=JobState.COMPLETED, gpus=(), shape=JobShape(gpus=1))
    training.rates.learn(replace(view(node("n1")), ended=(over,)), ())
    assert training.rates.save_state() == {"jobs": {}}
    assert np.isnan(training.belief(seen).mid)


def test_it_goes_on_from_its_saved_state() -> None:
    training = Training()
    training.run(ALONE, speed=2.0)
    again = StepRates()
    again.restore_state(training.rates.save_state())

    training.rates = again

    assert training.belief(training.run(BESIDE, speed=1.0)).mid == pytest.approx(0.5)


def test_only_so_many_jobs_are_kept() -> None:
    rates = StepRates(memory=1)
    for number in range(3):
        seen = view(node("n1"), jobs=(job(f"j{number}", on=("n1/gpu0",)),), t_s=10.0 * number)
        rates.learn(replace(seen, jobs=replace(seen.jobs, step_count=np.array([1.0]))), ())

    assert [*rates.save_state()["jobs"]] == ["j2"]
