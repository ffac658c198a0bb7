"""Cuts are never degenerate: ties, zeros, saturation and constants get levels of use."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from steward.learn.patterns.cuts import LEVELS, Cuts, cut, levels_of
from steward.learn.patterns.sketches import sketch_of

rng = np.random.default_rng(5)
N = 6000
ZERO, FULL, ANY = rng.random(N) < 0.4, rng.random(N) < 0.6, rng.random(N) * 100
INFLATED = np.where(rng.random(N) < 0.8, 0, rng.exponential(size=N))
SATURATED = np.where(rng.random(N) < 0.7, 100, rng.integers(0, 100, N))


def cut_of(values: NDArray[np.float64] | list[float]) -> Cuts:
    return cut(sketch_of(np.asarray(values, np.float32)))


def test_smooth_values_are_cut_into_terciles() -> None:
    cuts = cut_of(rng.normal(size=N))

    assert cuts.names == ("low", "medium", "high")
    assert cuts.shares == pytest.approx((1 / 3, 1 / 3, 1 / 3), abs=0.01)


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (INFLATED, ("zero", "low", "medium", "high")),
        (np.where(rng.random(N) < 0.99, 0, 1), ("zero", "high")),
        (SATURATED, ("low", "medium", "high", "full")),
        (np.where(rng.random(N) < 0.5, 0, rng.normal(size=N)), ("falling", "zero", "low", "high")),
        (np.where(ZERO, 0, np.where(FULL, 100, ANY)), ("zero", "low", "high", "full")),
        (np.where(rng.random(N) < 0.6, 5, rng.random(N) * 10), ("low", "typical", "high")),
        (np.where(rng.random(N) < 0.9, 5, rng.random(N) * 10 + 1), ("typical", "high")),
        (np.tile([1, 2], N), ("low", "high")),
        (np.where(np.arange(N) == 7, 0, 7), ("constant",)),
        ([5.0] * 10, ("constant",)),
        ([0.0] * 10, ("zero",)),
        ([np.nan] * 10, ()),
        (np.where(rng.random(N) < 0.6, 345, rng.integers(345, 1980, N)), ("low", "medium", "high")),
    ],
    ids=[
        "zero-inflated", "rare", "saturated", "differences", "both-ends", "tie-inside",
        "tie-below", "two-values", "nearly-constant", "constant", "always-zero", "all-missing",
        "idle-clock",
    ],
)  # fmt: skip
def test_large_ties_become_levels(values: NDArray[np.float64], names: tuple[str, ...]) -> None:
    cuts = cut_of(values)

    assert cuts.names == names
    assert cuts.why


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from([0.0, 0.0, 0.0, 100.0, 100.0, 7.0, -1.0]) | st.floats(-1e6, 1e6, width=32),
        min_size=1,
        max_size=80,
    )
)
def test_every_level_has_windows_and_levels_rise_with_values(values: list[float]) -> None:
    sample = np.sort(np.array(values, np.float32))

    cuts = cut(sketch_of(sample))

    levels = levels_of(sample, cuts)
    counts = np.bincount(levels, minlength=len(cuts.names))
    assert len(counts) == len(cuts.names) == len(cuts.bounds) + 1
    assert (counts > 0).all()
    assert counts / len(sample) == pytest.approx(cuts.shares)
    assert (np.diff(levels) >= 0).all()
    assert [*cuts.names] == sorted(cuts.names, key=LEVELS.index)
    assert (levels_of(sample[::-1], cuts) == levels[::-1]).all()
