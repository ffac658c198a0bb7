"""What commons refuses to be told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from steward.decide.scheduling.tenant_sharing.commons import Commons
from steward.errors import StewardError


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
@pytest.mark.parametrize("option", ["lead", "class_weight", "old_s", "gang_wait_s", "strength"])
def test_what_ranks_are_divided_by_must_be_above_zero(option: str, value: float) -> None:
    told: dict[str, Any] = {option: value}

    with pytest.raises(StewardError, match=f"{option} must be above 0") as raised:
        Commons(**told)

    assert raised.value.where == "commons"


@pytest.mark.parametrize("value", [0.5, 0.0, float("nan")])
def test_less_than_one_job_cannot_be_remembered(value: float) -> None:
    with pytest.raises(StewardError, match="memory must be at least 1 job"):
        Commons(memory=value)


def test_a_goal_that_is_not_known_is_answered_with_those_that_are() -> None:
    with pytest.raises(StewardError) as raised:
        Commons(goal="costs")

    assert raised.value.problem == "there is no goal called 'costs'; known: carbon, cost, energy"
    assert raised.value.hint == "did you mean 'cost'?"


def test_what_is_told_reaches_the_ranking() -> None:
    made = Commons(class_weight=3.0, old_s=60.0, moves=False, goal="carbon").ranking

    assert (made.class_weight, made.old_s, made.moves, made.goal) == (3.0, 60.0, False, "carbon")
    assert made.deadlines
    assert Commons().ranking.gang_wait_s == np.inf
    assert Commons(gang_wait_s=60.0).ranking.gang_wait_s == 60.0
