"""The next run: most information about full scale per cost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.learn.estimators.applications.next_run import Knowledge, Places, choose_next


def places(x: list[float], full: list[bool], cell: list[int] | None = None) -> Places:
    return Places(
        x=np.array(x)[:, None],
        cell=np.array(cell or [0] * len(x)),
        full=np.array(full, dtype=np.bool_),
    )


NONE = places([], [])
CANDIDATES = places([-1.0, 0.0, 1.0, 2.0], [False, False, False, True])
TARGETS = CANDIDATES.of(CANDIDATES.full)
ALL = np.ones(4, dtype=np.bool_)


def test_without_cost_differences_full_scale_tells_most_and_at_its_price_it_does_not() -> None:
    same = choose_next(Knowledge(NONE), CANDIDATES, TARGETS, cost=np.ones(4), allowed=ALL)
    dear = choose_next(
        Knowledge(NONE), CANDIDATES, TARGETS, cost=np.array([1.0, 1.0, 1.0, 100.0]), allowed=ALL
    )

    assert same is not None
    assert (same.index, "full scale" in same.because) == (3, True)
    assert dear is not None
    assert dear.index == 2
    assert "downsized: takes" in dear.because


def test_what_is_not_allowed_is_not_chosen_and_without_any_there_is_none() -> None:
    only = np.array([True, False, False, False])
    found = choose_next(Knowledge(NONE), CANDIDATES, TARGETS, cost=np.ones(4), allowed=only)

    assert found is not None
    assert found.index == 0
    assert choose_next(Knowledge(NONE), CANDIDATES, TARGETS, cost=np.ones(4), allowed=~ALL) is None


def test_only_full_scale_takes_away_the_doubt_about_its_level() -> None:
    small = Knowledge(places([-1.0, 0.0, 1.0] * 30, [False] * 90), noise=0.02)
    both = Knowledge(places([-1.0, 0.0, 1.0] * 30 + [2.0], [False] * 90 + [True]), noise=0.02)

    assert small.deviation(TARGETS)[0] > 0.25
    assert both.deviation(TARGETS)[0] < 0.05


def test_runs_of_another_combination_of_levels_tell_less() -> None:
    here = Knowledge(places([0.0, 1.0], [False, False], [0, 0]))
    there = Knowledge(places([0.0, 1.0], [False, False], [1, 1]))

    assert here.deviation(TARGETS)[0] < there.deviation(TARGETS)[0]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=1, max_size=12), st.floats(-3, 3))
def test_a_further_run_never_makes_anything_less_certain(known: list[float], more: float) -> None:
    before = Knowledge(places(known, [False] * len(known)))
    after = Knowledge(places([*known, more], [False] * (len(known) + 1)))

    assert (after.deviation(CANDIDATES) <= before.deviation(CANDIDATES) + 1e-6).all()
    assert np.diag(after.covariance(CANDIDATES, CANDIDATES)) == pytest.approx(
        after.deviation(CANDIDATES) ** 2, abs=1e-6
    )
