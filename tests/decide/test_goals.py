"""Which machines are filled first, by what work on them adds to the bill."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from steward.decide.scheduling.goals import Goal, preference
from steward.model.machines import machines_of

OWN, RENTED, CLEAN = range(3)
NODES = np.arange(3)
MACHINES = replace(
    machines_of(3, gpus_per_node=1),
    on_demand=np.array([False, True, False]),
    price_per_gpu_h=np.array([9.0, 2.0, 1.0]),
    idle_watts=np.array([100.0, 100.0, 50.0]),
    busy_watts=np.array([300.0, 300.0, 350.0]),
    gram_co2_per_kwh=np.array([400.0, 400.0, 10.0]),
)


@pytest.mark.parametrize(
    ("goal", "added"),
    [
        ("", [0.0, 0.0, 0.0]),
        ("cost", [0.0, 2.0, 0.0]),  # what is one's own is paid for anyway
        ("energy", [200.0, 300.0, 300.0]),  # and draws its idle power anyway
        ("carbon", [80_000.0, 120_000.0, 3000.0]),
    ],
)
def test_a_goal_counts_what_work_adds_to_what_is_paid_anyway(goal: str, added: list[float]) -> None:
    assert preference(goal, MACHINES, NODES, np.ones(3)).tolist() == added


def test_who_is_faster_adds_less_for_the_same_work() -> None:
    speed = np.array([1.0, 2.0, 4.0])

    assert preference("cost", MACHINES, NODES, speed).tolist() == [0.0, 1.0, 0.0]
    assert preference("energy", MACHINES, NODES, speed).tolist() == [200.0, 150.0, 75.0]


def test_each_pool_is_seen_by_the_node_that_stands_for_it() -> None:
    assert preference("carbon", MACHINES, np.array([CLEAN, OWN]), np.ones(2)).tolist() == [
        3000.0,
        80_000.0,
    ]


def test_every_goal_has_a_preference() -> None:
    found = {goal: tuple(preference(goal, MACHINES, NODES, np.ones(3))) for goal in Goal}

    assert len(set(found.values())) == len(Goal)
