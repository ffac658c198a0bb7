"""What is believed of sites: the most special key wins, and impossible beliefs are refused."""

from __future__ import annotations

from typing import Any

import pytest

from plans import exactly, queue, site
from steward.errors import StewardError
from steward.model.planning.outlook import Outlook, place_of
from steward.model.planning.plan import Range

HERE = site("here", queue("gpu"), queue("cpu"), region="de")
GPU, CPU = HERE.queues


def test_a_queue_comes_before_its_site_and_that_before_its_region() -> None:
    waits = {"here/gpu": exactly(1.0), "here": exactly(2.0)}
    outlook = Outlook(waits=waits, price_by_hour={"de": [3.0]}, interrupted_every_s={"de": 4.0})

    assert place_of(HERE, GPU) == "here/gpu"
    assert outlook.wait_at(HERE, GPU) == exactly(1.0)
    assert outlook.wait_at(HERE, CPU) == exactly(2.0)
    assert outlook.prices_at(HERE, GPU) == [3.0]
    assert outlook.interrupted_every(HERE, GPU) == 4.0


def test_carbon_is_that_of_a_site_or_of_its_region() -> None:
    assert Outlook(grams_by_hour={"de": [3.0]}).grams_at(HERE) == [3.0]
    assert Outlook(grams_by_hour={"de": [3.0], "here": [4.0]}).grams_at(HERE) == [4.0]


def test_what_is_not_in_it_is_unknown() -> None:
    nothing = Outlook()

    assert nothing.wait_at(HERE, GPU) is None
    assert nothing.prices_at(HERE, GPU) is None
    assert nothing.grams_at(HERE) is None
    assert nothing.interrupted_every(HERE, GPU) is None


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"waits": {"a": exactly(-1.0)}}, "the wait at a"),
        ({"waits": {"a": Range(low=0.0, mid=0.0, high=float("inf"))}}, "the wait at a"),
        ({"grams_by_hour": {"de": []}}, "the hours of de"),
        ({"price_by_hour": {"de": [1.0, -1.0]}}, "the hours of de"),
        ({"interrupted_every_s": {"a": 0.0}}, "a is interrupted every 0.0 s"),
    ],
)
def test_impossible_beliefs_are_refused(facts: dict[str, Any], problem: str) -> None:
    with pytest.raises(StewardError, match=problem):
        Outlook(**facts)
