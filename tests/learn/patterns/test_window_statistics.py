"""Figures of windows are those of numpy, whatever is missing and however long windows are."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.learn.patterns.window_statistics import STATISTICS, window_statistics


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(1, 199), max_size=8),
    st.sampled_from([0.0, 0.3, 0.95]),
)
def test_medians_are_those_of_what_is_known(seed: int, inner: list[int], missing: float) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(3, 200)).astype(np.float32)
    values[rng.random(values.shape) < missing] = np.nan
    edges = np.array(sorted({0, 200, *inner}), np.int64)

    medians = window_statistics(values, edges, ["median"], period_s=0.1)["median"]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # windows without a value
        true = [np.nanmedian(values[:, a:b], axis=1) for a, b in itertools.pairwise(edges)]
    np.testing.assert_allclose(medians, np.stack(true, axis=1), rtol=1e-6)


def test_a_ramp_has_its_slope_and_a_spike_does_not_change_it() -> None:
    ramp = np.arange(100, dtype=np.float32) * np.float32(0.3)
    spiked = ramp.copy()
    spiked[50] = 1e6

    found = window_statistics(
        np.stack([ramp, spiked]), np.array([0, 100]), STATISTICS, period_s=0.1
    )

    assert found["slope"][:, 0] == pytest.approx([3.0, 3.0], rel=0.02)
    assert found["spread"][:, 0] == pytest.approx([15.0, 15.0], rel=0.05)


def test_a_wave_is_periodic_and_noise_is_not() -> None:
    t = np.arange(600) * 0.1
    rng = np.random.default_rng(0)
    wave = np.sin(t * 2 * np.pi / 2.0) + rng.normal(0, 0.2, 600)
    rows = np.stack([wave, rng.normal(size=600), np.full(600, 4.0)]).astype(np.float32)

    found = window_statistics(rows, np.array([0, 600]), ["periodicity"], period_s=0.1)

    strength = found["periodicity"][:, 0]
    assert strength[0] > 0.8
    assert strength[1] < 0.4
    assert strength[2] == 0.0


def test_values_are_left_as_they_were() -> None:
    values = np.random.default_rng(1).normal(size=(2, 60)).astype(np.float32)
    before = values.copy()

    window_statistics(values, np.array([0, 30, 60]), STATISTICS, period_s=0.1)

    assert (values == before).all()
