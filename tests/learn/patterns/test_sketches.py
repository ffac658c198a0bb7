"""A sketch depends on the values alone, however they were divided."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.learn.patterns.sketches import Sketch, merge_all, sketch_of

VALUES = st.lists(
    st.floats(width=32, allow_infinity=False) | st.sampled_from([0.0, -0.0, 100.0]), max_size=120
)


def same(one: Sketch, other: Sketch) -> bool:
    return one.shift == other.shift and all(
        getattr(one, name).tobytes() == getattr(other, name).tobytes()
        for name in ("counts", "least", "greatest")
    )


@settings(max_examples=150, deadline=None)
@given(VALUES, st.lists(st.integers(0, 120), max_size=6), st.integers(2, 20), st.randoms())
def test_any_partition_gives_the_same_bytes(
    values: list[float], cuts: list[int], limit: int, dice: object
) -> None:
    whole = np.array(values, np.float32)
    parts = np.split(whole, sorted(min(cut, len(whole)) for cut in cuts))
    sketches = [sketch_of(part, limit=limit) for part in parts]
    dice.shuffle(sketches)  # type: ignore[attr-defined]

    merged = merge_all(sketches)

    assert same(merged, sketch_of(whole, limit=limit))
    assert len(merged.counts) <= limit or merged.shift == 31
    assert merged.total == int((~np.isnan(whole)).sum())


def test_a_few_different_values_are_counted_exactly() -> None:
    sketch = sketch_of(np.array([3, 1, 3, np.nan, -0.0, 0.0], np.float32))

    assert sketch.least.tolist() == [0.0, 1.0, 3.0]
    assert sketch.counts.tolist() == [2, 1, 2]
    assert sketch.shift == 0


def test_quantiles_of_many_values_are_close() -> None:
    values = np.random.default_rng(0).lognormal(size=50_000).astype(np.float32)

    sketch = sketch_of(values)

    for share in (0.01, 0.33, 0.5, 0.67, 0.99):
        true = np.quantile(values, share)
        assert abs(sketch.quantile(share) - true) < 0.01 * true


def test_an_empty_sketch_has_no_quantile() -> None:
    assert np.isnan(sketch_of(np.array([np.nan], np.float32)).quantile(0.5))
