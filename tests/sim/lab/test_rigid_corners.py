"""Corners of the rigid engine: many at once, pools, moves, boots, and options that are refused."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sim.lab.rigid.by_hand import down, jobs, nodes, replayed, up
from steward.errors import StewardError
from steward.sim.lab.run import replay
from steward.sim.lab.settings import LabSettings

PACKED = {"placement": "packed"}

MANY_AT_ONCE = """
from steward.model.machines import machines_of
from steward.model.trace import trace_of
from steward.sim.lab.run import replay
from steward.sim.lab.settings import LabSettings
n = 8000
trace = trace_of("n", submit_s=[0.0] * n, duration_s=[1.0] * n, gpus=[1.0] * n, **{columns})
replay(trace, machines_of(1), "commons", LabSettings(policy_options={options}))
"""


@pytest.mark.parametrize(
    ("columns", "options"), [("{'deadline_s': [1e9] * n}", "{}"), ("{}", "{'old_s': 1e6}")]
)
def test_many_reviews_at_one_instant_find_room_in_the_heap(columns: str, options: str) -> None:
    program = MANY_AT_ONCE.replace("{columns}", columns).replace("{options}", options)

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("policy", ["fit-first", "commons"])
def test_a_job_goes_to_the_next_pool_where_the_roomiest_has_no_node_for_it(policy: str) -> None:
    machines = nodes(4, gpus=4, cluster=np.array([0, 0, 0, 1]), clusters=("x", "y"))
    machines = replace(machines, gpus=np.array([4, 4, 4, 2]))

    made = replayed(
        jobs((0, 100, 3), (0, 100, 3), (0, 100, 3), (1, 10, 2)), machines, policy, **PACKED
    )

    assert made.start_s[3] == 1  # 1 + 1 + 1 GPUs are free in x, and a node of 2 in y


def test_to_save_cost_a_gang_rents_where_ones_own_nodes_are_fragments() -> None:
    machines = nodes(3, gpus=4, on_demand=np.array([0, 0, 1], bool))
    told = {**PACKED, "policy_options": {"commons.goal": "cost"}, "checkpoint_s": 1e6}

    made = replayed(jobs((0, 900, 3), (0, 900, 3), (1, 10, 2)), machines, "commons", **told)

    assert made.start_s[2] == 1


def test_booting_that_was_interrupted_is_not_lost_twice() -> None:
    machines = nodes(1, down(150), up(200), on_demand=np.array([True]), boot_s=np.array([100.0]))

    made = replayed(jobs((0, 200, 4)), machines, saves_every_s=0.0, **PACKED)

    assert made.end_s.tolist() == [200 + 100 + 200]  # boots, and does all its work again


def test_who_is_stopped_while_it_boots_boots_once_when_it_goes_on() -> None:
    machines = nodes(
        1, down(50, warning_s=9.0), up(200), on_demand=np.array([True]), boot_s=np.array([100.0])
    )

    made = replayed(jobs((0, 200, 4)), machines, **PACKED)

    assert made.end_s.tolist() == [200 + 100 + 200]


def test_each_node_boots_in_its_own_time() -> None:
    machines = nodes(2, on_demand=np.array([True, True]), boot_s=np.array([100.0, 0.0]))

    made = replayed(jobs((0, 200, 4), (0, 200, 4)), machines, **PACKED)

    assert sorted(made.end_s.tolist()) == [200, 300]


def test_nobody_moves_that_has_nowhere_to_go() -> None:
    small = [(1100.0 + i * 100, 10, 1) for i in range(60)]
    trace = jobs((0, 9000, 2), (1, 9000, 2), (1000, 9000, 2), *small)

    made = replayed(trace, nodes(2, gpus=3), "commons", checkpoint_s=10.0, **PACKED)

    assert made.preemptions.sum() <= 2  # as without moves; now 69


def test_nobody_loses_what_it_is_guaranteed_to_a_job_that_is_moved_in() -> None:
    trace = jobs((0, 9000, 2), (1, 9000, 2), (1000, 9000, 2), tenant=["b", "a", "a"])
    told = {"checkpoint_s": 10.0, "quota": {"b": 2.0, "a": 1.0}, **PACKED}

    made = replayed(trace, nodes(2, gpus=3), "commons", **told)

    assert made.end_s[0] <= 9000 + made.lost_s[0]  # now it waits from 3715 s to 4074 s


def test_nobody_is_stopped_at_the_instant_at_which_it_starts() -> None:
    rows = ((0, 1, 1), (0, 1, 1), (0, 3000, 2), (0, 3000, 2), (0, 1, 2), (0, 1, 6))
    trace = jobs(*rows, tenant=["a", "a", "a", "b", "b", "a"])
    told = {"checkpoint_s": 30.0, "quota": {"a": 2.001, "b": 0.001}, **PACKED}

    made = replayed(trace, nodes(2, gpus=3), "commons", **told)

    assert (made.segments.stop_s > made.segments.start_s).all()


def refused(policy: str, options: dict[str, Any], placement: str = "packed") -> str:
    told = LabSettings(placement=placement, policy_options=options)
    with pytest.raises(StewardError) as raised:
        replay(jobs((0, 10, 1)), nodes(1), policy, told)
    return raised.value.problem


def test_an_option_for_a_policy_that_there_is_not_is_refused() -> None:
    assert "comons" in refused("commons", {"comons.lead": 3.0})


def test_a_memory_of_less_than_one_job_is_refused() -> None:
    assert "memory" in refused("commons", {"commons.memory": 0.5})


def test_an_unknown_goal_is_told_before_the_placement() -> None:
    assert "there is no goal called 'money'" in refused("commons", {"goal": "money"}, "count")
