"""Conformal limits hold as often as they promise, whatever the errors look like."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.learn.estimators.applications.limits import (
    conformal_limit,
    least_scores,
    pinball,
)


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(9, 60),
    tail=st.sampled_from(["normal", "heavy", "skewed", "equal"]),
    share=st.sampled_from([0.5, 0.8, 0.9]),
    seed=st.integers(0, 10_000),
)
def test_a_limit_holds_for_the_next_score_at_least_as_often_as_promised(
    count: int, tail: str, share: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    draws = {
        "normal": rng.standard_normal((400, count + 1)),
        "heavy": rng.standard_cauchy((400, count + 1)),
        "skewed": rng.exponential(size=(400, count + 1)),
        "equal": np.zeros((400, count + 1)),
    }[tail]

    held = [conformal_limit(row[:-1], share)[0] >= row[-1] for row in draws]

    assert np.mean(held) >= share - 0.07  # four deviations of 400 draws


@given(st.lists(st.floats(-5, 5), max_size=40), st.floats(0.5, 0.95))
def test_more_certain_limits_are_not_lower(scores: list[float], share: float) -> None:
    known = np.array(scores)

    low, high = conformal_limit(known, share), conformal_limit(known, share + 0.04)

    if low[1] == high[1]:
        assert high[0] >= low[0]


def test_too_few_scores_give_a_finite_limit_beyond_all_of_them_that_is_not_sure() -> None:
    scores = np.array([0.1, -0.2, 0.15])

    limit, sure = conformal_limit(scores, 0.9)

    assert not sure
    assert 0.2 < limit < 1.0
    assert conformal_limit(np.zeros(0), 0.9)[0] > 0.2
    assert conformal_limit(np.zeros(least_scores(0.9)), 0.9) == (0.0, True)


def test_pinball_loss_grows_with_spread_and_counts_a_shift_only_where_it_is_not_taken_out() -> None:
    errors = np.random.default_rng(0).standard_normal(200)

    assert pinball(2.0 * errors) == pytest.approx(2.0 * pinball(errors))
    assert pinball(errors + 3.0) == pytest.approx(pinball(errors))
    assert pinball(errors + 3.0, centred=False) > 2.0 * pinball(errors)
