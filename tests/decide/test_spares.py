"""How many spare nodes it takes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.decide.health.spares import GroupOutages, spares_for, spares_from_counts
from steward.errors import StewardError
from steward.model.outcome import Interval


def sure(chance: float) -> Interval:
    return Interval(low=chance, mid=chance, high=chance)


@pytest.mark.parametrize(
    ("available", "spares"),
    [(0.99, [3, 6, 14, 22, 63]), (0.995, [2, 4, 9, 13, 36]), (0.999, [1, 2, 4, 5, 12])],
)
def test_spares_of_independent_nodes_are_those_of_the_published_table(
    available: float, spares: list[int]
) -> None:
    found = [spares_for(n, sure(available)).spares for n in (32, 128, 512, 1024, 4096)]

    assert found == spares


def test_an_unsure_availability_gives_a_range() -> None:
    found = spares_for(1024, Interval(low=0.98, mid=0.995, high=0.999))

    assert found.low < found.spares < found.high
    assert found.reached >= 0.999
    assert found.share == found.spares / 1024


def test_nodes_that_never_fail_need_no_spares() -> None:
    assert spares_for(64, sure(1.0)).spares == 0


def test_groups_that_fail_together_need_more() -> None:
    alone = spares_for(256, sure(0.995))
    together = spares_for(256, sure(0.995), groups=GroupOutages(nodes=18, down_share=0.001))
    never = spares_for(256, sure(0.995), groups=GroupOutages(nodes=18, down_share=0.0))

    assert together.spares > alone.spares
    assert never.spares == alone.spares


@settings(max_examples=20, deadline=None)
@given(
    nodes=st.integers(4, 40), chance=st.floats(0.8, 0.99), down=st.floats(0.001, 0.05),
    size=st.integers(2, 9), seed=st.integers(0, 9),
)  # fmt: skip
def test_the_chance_with_groups_is_that_of_a_simulation(
    nodes: int, chance: float, down: float, size: int, seed: int
) -> None:
    plan = spares_for(
        nodes, sure(chance), target=0.9, groups=GroupOutages(nodes=size, down_share=down)
    )
    rng = np.random.default_rng(seed)
    total = nodes + plan.spares
    group = np.arange(total) // size
    up = rng.random((20_000, int(group.max()) + 1)) >= down
    alive = up[:, group] & (rng.random((20_000, total)) < chance)

    assert plan.reached == pytest.approx((alive.sum(axis=1) >= nodes).mean(), abs=0.015)


def test_outages_as_they_came_decide_by_the_share_of_time() -> None:
    hours = np.array([3600.0] * 24)
    quiet = (hours, np.zeros(24))
    rack = (hours, np.array([16.0] * 2 + [0.0] * 22))

    often = spares_from_counts(100, 100, [quiet, rack] * 10, target=0.99)
    seldom = spares_from_counts(100, 100, [quiet] * 19 + [rack], target=0.99)
    larger = spares_from_counts(200, 100, [quiet, rack] * 10, target=0.99)

    assert (often.spares, seldom.spares, larger.spares) == (16, 0, 32)
    assert seldom.low == 0
    assert seldom.high in (0, 16)
    assert often.reached == 1.0


@pytest.mark.parametrize("nodes", [0, 10**9])
def test_fleets_of_impossible_sizes_are_refused(nodes: int) -> None:
    with pytest.raises(StewardError, match="cannot be planned"):
        spares_for(nodes, sure(0.99))


def test_targets_and_availabilities_that_cannot_be_are_refused() -> None:
    with pytest.raises(StewardError, match="target"):
        spares_for(10, sure(0.99), target=1.0)
    with pytest.raises(StewardError, match="never be enough"):
        spares_for(10, sure(0.0))
    with pytest.raises(StewardError, match="no number of spares"):
        spares_for(100_000, sure(0.3))
    with pytest.raises(StewardError, match="no time"):
        spares_from_counts(10, 10, [])
