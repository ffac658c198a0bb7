"""How many GPUs are worth it, from runs at several counts."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.learn.gpu_scaling import ScalingRuns, advise


def runs_of(serial: float, *counts: int, noise: float = 0.03, each: int = 4) -> ScalingRuns:
    draws = np.random.default_rng(0)
    found = ScalingRuns()
    for gpus in counts:
        for _ in range(each):
            run_s = 36_000 * (serial + (1 - serial) / gpus) * np.exp(noise * draws.normal())
            found.learn("k", gpus, float(run_s))
    return found


@pytest.mark.parametrize(("serial", "gpus"), [(0.001, 16), (0.1, 4), (0.6, 1)])
def test_the_share_that_does_not_scale_decides(serial: float, gpus: int) -> None:
    advice = advise(runs_of(serial, 1, 2, 4, 8).of("k"))

    assert advice.gpus == gpus
    assert advice.low is not None
    assert advice.high is not None
    assert advice.low <= gpus <= advice.high
    assert "of the work does not scale" in advice.why


def test_asking_for_more_of_each_gpu_recommends_fewer() -> None:
    runs = runs_of(0.05, 1, 2, 4, 8).of("k")

    strict, lax = advise(runs, worth=0.8), advise(runs, worth=0.3)

    assert strict.gpus is not None
    assert lax.gpus is not None
    assert strict.gpus < lax.gpus


def test_beyond_what_was_tried_it_says_so() -> None:
    assert "more than 8 was never tried" in advise(runs_of(0.0, 1, 8).of("k")).why


def test_without_runs_or_with_one_count_it_says_what_would_tell() -> None:
    none, same = advise({}), advise(runs_of(0.1, 4).of("k"))

    assert none.gpus is None
    assert "no run" in none.why
    assert same.gpus is None
    assert "all 4 runs used 4 GPUs: run it once with 2" in same.why


def test_runs_that_differ_more_than_counts_do_give_no_number() -> None:
    advice = advise(runs_of(0.02, 1, 2, noise=0.5, each=2).of("k"))

    assert advice.gpus is None
    assert "too uncertain" in advice.why


@pytest.mark.parametrize("worth", [0.0, 1.0, -3.0])
def test_what_is_no_share_is_refused(worth: float) -> None:
    with pytest.raises(StewardError, match="no share"):
        advise({1: (1.0, 1.0, 0.0)}, worth=worth)


def test_kinds_and_counts_are_bounded_and_a_state_goes_through_json() -> None:
    found = ScalingRuns()
    for kind in range(600):
        found.learn(("u", str(kind)), 1, 60.0)
    for gpus in range(1, 40):
        found.learn(("u", "599"), gpus, 60.0)
    found.learn("x", 0, 60.0)

    again = ScalingRuns()
    again.restore_state(json.loads(json.dumps(found.save_state())))

    assert len(again.save_state()) == 500
    assert again.of(("u", "599")) == found.of(("u", "599"))
    assert len(again.of(("u", "599"))) == 16
    assert not again.of(("u", "0"))


@settings(deadline=None, max_examples=50)
@given(
    runs=st.dictionaries(
        st.integers(1, 512),
        st.tuples(st.floats(1, 50), st.floats(0, 20), st.floats(0, 5)),
        min_size=2,
        max_size=6,
    )
)
def test_whatever_was_measured_advice_is_in_order(
    runs: dict[int, tuple[float, float, float]],
) -> None:
    advice = advise(runs)

    assert advice.low is not None
    assert advice.high is not None
    assert 1 <= advice.low <= (advice.gpus or advice.low) <= advice.high <= 2 * max(runs)
