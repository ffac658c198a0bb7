"""What is asked of a plan refuses what contradicts itself, all of it at once."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from plans import NOW_S, exactly, request, way
from steward.errors import StewardError
from steward.model.planning.plan import PlanRequest, Range, Weights


def test_a_range_is_ordered_and_scales() -> None:
    assert Range(low=1.0, mid=2.0, high=4.0).times(2.0) == Range(low=2.0, mid=4.0, high=8.0)
    assert Range(low=1.0, mid=2.0, high=4.0).after(3.0) == Range(low=4.0, mid=5.0, high=7.0)
    with pytest.raises(StewardError, match="not ordered"):
        Range(low=2.0, mid=1.0, high=4.0)


@pytest.mark.parametrize(
    ("but", "problem"),
    [
        ({"gpus": -1}, "it has -1 GPUs"),
        ({"gpus": 0}, "it has 0 GPUs of model 'A100'"),
        ({"gpu_model": ""}, "it has 1 GPUs of model ''"),
        ({"run_s": exactly(0.0)}, "it runs 0.0 to 0.0 s"),
        ({"run_s": Range(low=1.0, mid=2.0, high=inf)}, "it runs 1.0 to inf s"),
        ({"watts": exactly(-1.0)}, "a GPU draws -1.0"),
        ({"most_nodes": 0}, "spread over 0 nodes"),
    ],
)
def test_an_impossible_way_is_refused(but: dict[str, Any], problem: str) -> None:
    with pytest.raises(StewardError, match=problem):
        way(**but)


@pytest.mark.parametrize(
    ("but", "problem"),
    [
        ({"now_s": nan}, "now_s is nan"),
        ({"deadline_s": inf}, "deadline_s is inf"),
        ({"deadline_chance": 1.0}, "deadline_chance is 1.0"),
        ({"budget_usd": -1.0}, "budget_usd is -1.0"),
        ({"cores": 0}, "it asks for 0 cores"),
        ({"memory_bytes": -1}, "-1 bytes of memory"),
        ({"save_s": -1.0}, "a save takes -1.0 s"),
        ({"save_every_s": 0.0}, "every 0.0 s"),
    ],
)
def test_an_impossible_request_is_refused(but: dict[str, Any], problem: str) -> None:
    with pytest.raises(StewardError, match=problem):
        request(**but)


def test_all_faults_of_a_request_are_named_at_once() -> None:
    with pytest.raises(StewardError) as raised:
        PlanRequest(name="x", ways=(), now_s=NOW_S, cores=0, budget_usd=-1.0)

    assert raised.value.problem.count(";") == 2
    assert "there is no way to run it" in raised.value.problem
    assert "'x'" in raised.value.where


@pytest.mark.parametrize("values", [(-1.0, 0.0), (0.0, inf), (nan, 0.0)])
def test_weights_are_0_or_more(values: tuple[float, float]) -> None:
    with pytest.raises(StewardError, match="counts as"):
        Weights(usd_per_h=values[0], usd_per_kg=values[1])
