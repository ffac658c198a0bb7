"""What machines cost and drew, by hand, where some of them are rented."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from steward.model.machines import MachineChange, Machines, machines_of
from steward.model.replay import Replay
from steward.model.trace import trace_of
from steward.sim.lab.judge.energy import Bill, bill_of, up_s
from tiny_replays import replay_of, spans

HOUR_S = 3600.0
# A node of one's own and one for rent, of four GPUs each
MACHINES = replace(
    machines_of(8, gpus_per_node=4),
    on_demand=np.array([False, True]),
    price_per_gpu_h=np.array([1.0, 5.0]),
    idle_watts=np.array([100.0, 100.0]),
    busy_watts=np.array([300.0, 500.0]),
    gram_co2_per_kwh=np.array([1000.0, 100.0]),
)


def held(node: int, gpus: float, hours: float, machines: Machines = MACHINES) -> Replay:
    """Return a replay in which one job held GPUs of a node from the first second on."""
    trace = trace_of("one", submit_s=[0], duration_s=[hours * HOUR_S], gpus=[gpus])
    runs = replace(spans((0, 0.0, hours * HOUR_S, gpus)), node=np.array([node]))
    return replay_of(trace, machines, runs)


def ten_hours(replay: Replay) -> Bill:
    return bill_of(replay, from_s=0.0, to_s=10 * HOUR_S, shared=1.0)


def test_a_rented_node_that_nobody_holds_costs_and_draws_nothing() -> None:
    bill = ten_hours(held(0, 2, 3.0))

    assert bill.cost == pytest.approx(4 * 10 * 1.0)
    assert bill.energy_kwh == pytest.approx(4 * 10 * 0.1 + 2 * 3 * 0.2)
    assert bill.co2_kg == pytest.approx(bill.energy_kwh)


def test_a_rented_node_costs_and_draws_while_it_is_held() -> None:
    bill = ten_hours(held(1, 2, 3.0))

    assert bill.cost == pytest.approx(4 * 10 * 1.0 + 2 * 3 * 5.0)
    assert bill.energy_kwh == pytest.approx(4 * 10 * 0.1 + 2 * 3 * 0.5)
    assert bill.co2_kg == pytest.approx(4 * 10 * 0.1 + 2 * 3 * 0.5 * 0.1)


def test_the_same_node_as_ones_own_costs_and_draws_all_the_time() -> None:
    own = replace(MACHINES, on_demand=np.zeros(2, bool))

    bill = ten_hours(held(1, 2, 3.0, own))

    assert bill.cost == pytest.approx(4 * 10 * 1.0 + 4 * 10 * 5.0)
    assert bill.energy_kwh == pytest.approx(8 * 10 * 0.1 + 2 * 3 * 0.4)


def test_where_gpus_are_only_counted_a_rented_node_has_its_part_of_what_is_held() -> None:
    bill = ten_hours(held(-1, 4, 3.0))

    assert bill.cost == pytest.approx(4 * 10 * 1.0 + 2 * 3 * 5.0)
    assert bill.energy_kwh == pytest.approx(4 * 10 * 0.1 + 2 * 3 * 0.2 + 2 * 3 * 0.5)


def test_a_node_is_there_from_when_it_comes_to_when_it_goes() -> None:
    moving = replace(
        MACHINES,
        up=np.array([True, False]),
        changes=(
            MachineChange(t_s=100, node=0, up=False),
            MachineChange(t_s=30, node=1, up=True),
            MachineChange(t_s=60, node=1, up=True),  # it is there already
            MachineChange(t_s=999, node=1, up=False),
        ),
    )

    assert up_s(moving, 10.0, 200.0).tolist() == [90, 170]
