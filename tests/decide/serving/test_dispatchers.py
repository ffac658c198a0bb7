"""Which requests go where, on views made by hand."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from serving_moments import kind, view
from steward.decide.serving import DISPATCHERS
from steward.decide.serving.edf import Edf
from steward.decide.serving.fcfs import Fcfs
from steward.decide.serving.least_loaded import LeastLoaded
from steward.decide.serving.priority import Priority
from steward.decide.serving.round_robin import RoundRobin
from steward.model.serving.view import (
    OFF,
    SERVING,
)


def test_fcfs_sends_the_oldest_to_the_instance_with_the_fewest_in_flight() -> None:
    seen = view(queue=[3, 5, 6], room=[1, 1], running=[4, 1], waiting=[0, 2])

    assert Fcfs().dispatch(seen).routes == ((3, 1), (5, 0))


def test_what_is_sent_in_one_call_is_spread() -> None:
    seen = view(queue=[0, 1, 2, 3], room=[5, 5], running=[0, 3])

    assert Fcfs().dispatch(seen).routes == ((0, 0), (1, 1), (2, 0), (3, 1))


@pytest.mark.parametrize(
    ("room", "rows"), [(1, [7]), (2, [7, 2]), (3, [7, 2, 4]), (9, [7, 2, 4, 1])]
)
def test_edf_sends_the_earliest_deadline_first_and_ties_by_arrival(
    room: int, rows: list[int]
) -> None:
    deadlines = [9.0, 8.0, 5.0, 9.0, 5.0, 9.0, 9.0, 1.0, 9.0, 9.0]
    seen = view(queue=[1, 2, 4, 7], room=[room], deadlines=deadlines)

    assert [row for row, _ in Edf().dispatch(seen).routes] == rows


def test_priority_serves_classes_by_rank_and_by_arrival_within() -> None:
    seen = view(queue=[0, 1, 2, 3], room=[3], ranks=[1, 0, 1, 0] + [0] * 6)

    assert [row for row, _ in Priority().dispatch(seen).routes] == [1, 3, 0]


def test_round_robin_takes_instances_in_turn_and_skips_full_ones() -> None:
    assert RoundRobin().dispatch(view(queue=[4], room=[1, 1, 1])).routes == ((4, 1),)
    assert RoundRobin().dispatch(view(queue=[4], room=[1, 0, 1])).routes == ((4, 2),)


def test_least_loaded_goes_by_the_share_of_the_cache_that_is_used() -> None:
    types = (kind(kv_tokens=1000), kind(kv_tokens=100))
    seen = view(queue=[0], room=[1, 1], types=types, type=[0, 1], kv_tokens=[300, 90])

    assert LeastLoaded().dispatch(seen).routes == ((0, 0),)


def test_a_model_without_room_does_not_hold_up_another() -> None:
    types = (kind("m"), kind("n"))
    seen = view(
        queue=[0, 1, 2],
        room=[0, 1],
        types=types,
        type=[0, 1],
        model=[0, 1],
        models=[0, 1, 1] * 3 + [0],
    )

    assert Fcfs().dispatch(seen).routes == ((1, 1),)


def test_room_for_one_model_is_no_room_for_another() -> None:
    types = (kind("m"), kind("n"))
    seen = view(
        queue=[0, 1, 2],
        room=[1, 2],
        types=types,
        type=[0, 1],
        model=[0, 1],
        models=[0, 0, 1] * 3 + [0],
    )

    assert Fcfs().dispatch(seen).routes == ((0, 0), (2, 1))


def test_an_idle_instance_loads_a_model_that_has_none_if_nobody_waits_for_its_own() -> None:
    types = (kind("m"), kind("n", gpus=2), kind("n"))
    idle = view(queue=[0], room=[1, 0], types=types, models=[1] * 10, state=[SERVING, OFF])
    busy = view(queue=[0], room=[1, 0], types=types, models=[1] * 10, running=[1, 1])
    none = view(queue=[0], room=[1], types=types[:2], models=[1] * 10)
    there = view(queue=[0], room=[1, 0], types=types, models=[1] * 10, type=[0, 2], model=[0, 1])

    assert Fcfs().dispatch(idle).swaps == ((0, 2),)
    assert Fcfs().dispatch(busy).swaps == ()
    assert Fcfs().dispatch(none).swaps == ()  # only on as many GPUs
    assert Fcfs().dispatch(there).swaps == ()


@pytest.mark.parametrize("name", sorted(DISPATCHERS))
def test_dispatching_is_pure_and_named_as_its_table_says(name: str) -> None:
    policy = DISPATCHERS[name]()
    seen = view(queue=[1, 2, 3], room=[1, 2])
    before = copy.deepcopy(seen)

    first = policy.dispatch(seen)

    assert policy.name == name
    assert first == policy.dispatch(seen)
    assert len(first.routes) == 3
    for part in ("requests", "instances"):
        now, was = getattr(seen, part), getattr(before, part)
        for column in now.__slots__:
            assert np.array_equal(getattr(now, column), getattr(was, column), equal_nan=True)
