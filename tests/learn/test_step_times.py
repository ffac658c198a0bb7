"""Step times that are known come back from what was measured of them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from steward.learn.step_profiles import read_profiles
from steward.learn.step_times import MeasuredStep, fit_step_times, relative_errors
from steward.model.serving.instance_type import StepTimes

TRUTH = StepTimes(
    fixed_s=0.006,
    prefill_s=0.001,
    token_s=2e-6,
    bend_tokens=128.0,
    token_beyond_s=3e-5,
    sequence_s=1e-5,
    kv_token_s=5e-8,
    attention_s=2e-9,
)


def measured(noise: float, seed: int = 0) -> list[MeasuredStep]:
    rng = np.random.default_rng(seed)
    steps = []
    for batch in (1, 4, 16, 64, 256):
        for length in (16, 64, 256, 1024, 4096):
            prompt = {"prefill_tokens": batch * length, "attention_pairs": batch * length**2 / 2}
            decode = {"decode_sequences": batch, "kv_tokens": batch * length}
            for what in (prompt, decode):
                s = TRUTH.step_s(**what) * (1 + noise * rng.standard_normal())
                steps.append(MeasuredStep(s=s, **what))
    return steps


def test_exact_times_are_fitted_exactly() -> None:
    found = fit_step_times(measured(0.0))

    assert found.bend_tokens == 128.0
    assert found.coefficients() == pytest.approx(TRUTH.coefficients(), rel=1e-3, abs=1e-9)


def test_noise_and_an_outlier_do_not_spoil_the_fit() -> None:
    steps = measured(0.02)
    first = steps[0]
    steps[0] = MeasuredStep(s=5 * first.s, prefill_tokens=first.prefill_tokens)

    errors = relative_errors(fit_step_times(steps), measured(0.0))

    assert np.median(errors) < 0.02
    assert errors.max() < 0.1


def test_coefficients_are_never_negative() -> None:
    rng = np.random.default_rng(1)
    steps = [
        MeasuredStep(s=float(rng.random()) + 0.001, decode_sequences=n, kv_tokens=100 * n)
        for n in range(1, 30)
    ]

    assert min(fit_step_times(steps).coefficients()) >= 0


@pytest.mark.data
def test_points_of_the_h200_that_were_held_out_are_predicted_within_5_percent() -> None:
    data = Path(os.environ.get("STEWARD_DATA", Path("..", "shared", "data")))
    for profile in read_profiles(data / "h200" / "serving_truth.csv"):
        order = np.random.default_rng(0).permutation(len(profile.steps))
        half = len(order) // 2
        times = fit_step_times([profile.steps[row] for row in order[half:]])

        errors = relative_errors(times, [profile.steps[row] for row in order[:half]])

        assert np.median(errors) <= 0.05
