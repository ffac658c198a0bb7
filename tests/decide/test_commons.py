"""What commons refuses to be told."""

from __future__ import annotations

from typing import Any

import pytest

from steward.decide.scheduling.shared.commons import Commons
from steward.errors import StewardError


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
@pytest.mark.parametrize("option", ["lead", "class_weight", "old_s", "memory"])
def test_what_ranks_are_divided_by_must_be_above_zero(option: str, value: float) -> None:
    told: dict[str, Any] = {option: value}

    with pytest.raises(StewardError, match=f"{option} must be above 0") as raised:
        Commons(**told)

    assert raised.value.where == "commons"


def test_what_is_told_reaches_the_ranking() -> None:
    made = Commons(class_weight=3.0, old_s=60.0, moves=False, goal="carbon").ranking

    assert (made.class_weight, made.old_s, made.moves, made.goal) == (3.0, 60.0, False, "carbon")
    assert made.deadlines
