"""Machines on different terms, by hand: pools, rented nodes, nodes that go, and goals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim.lab.rigid.by_hand import down, jobs, nodes, replayed, spans, up
from steward.errors import StewardError
from steward.model.machines import Machines
from steward.model.replay import Replay
from steward.sim.lab.run import replay
from steward.sim.lab.settings import LabSettings

TWO_CLUSTERS = {"cluster": np.array([0, 1]), "clusters": ("here", "there")}


# -- pools -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("placement", ["count", "packed", "spread", "topology", "fgd"])
@pytest.mark.parametrize(
    "columns",
    [
        TWO_CLUSTERS,
        {"spot": np.array([False, True])},
        {"on_demand": np.array([False, True])},
    ],
)
def test_a_gang_never_spans_clusters_or_machines_on_different_terms(
    columns: dict[str, Any], placement: str
) -> None:
    trace = jobs((0, 10, 8), (0, 10, 4), (0, 10, 4))

    apart = replayed(trace, nodes(2, **columns), "fit-first", placement=placement)
    alike = replayed(trace, nodes(2), "fit-first", placement=placement)

    assert np.isnan(apart.start_s).tolist() == [True, False, False]
    assert apart.start_s[1:].tolist() == [0, 0]
    assert alike.start_s.tolist() == [0, 10, 10]


@pytest.mark.parametrize("placement", ["count", "packed"])
def test_under_commons_too_a_gang_waits_for_one_pool_that_holds_it(placement: str) -> None:
    three = nodes(3, cluster=np.array([0, 1, 1]), clusters=("here", "there"))

    made = replayed(jobs((0, 30, 6), (0, 30, 4), (1, 30, 8)), three, "commons", placement=placement)

    assert made.start_s.tolist() == [0, 0, 30]


# -- rented on demand ------------------------------------------------------------------------------


def rented(goal: str, *rows: tuple[float, float, float]) -> Replay:
    """Replay on two nodes for rent, which take 50 s to come, and one of one's own, node 2."""
    machines = nodes(3, on_demand=np.array([True, True, False]), boot_s=np.array([50.0, 50.0, 0.0]))
    told = {"commons.goal": goal}
    return replayed(jobs(*rows), machines, "commons", placement="packed", policy_options=told)


def test_to_save_cost_machines_are_rented_only_when_ones_own_are_full() -> None:
    made = rented("cost", (0, 10, 4), (1, 10, 4), (20, 10, 4))

    assert [spans(made, job) for job in range(3)] == [
        [(0, 10, 2)],
        [(1, 61, 0)],
        [(20, 30, 2)],
    ]


def test_without_a_goal_the_pool_with_most_room_is_filled_first() -> None:
    made = rented("", (0, 10, 4), (1, 10, 4), (20, 10, 4))

    assert [spans(made, job)[0][2] for job in range(3)] == [0, 2, 2]


def test_waiting_for_a_rented_machine_is_lost_time() -> None:
    made = rented("cost", (0, 100, 4), (0, 100, 4))

    assert made.lost_s.tolist() == [0, 50]
    assert made.end_s.tolist() == [100, 150]


def test_a_faster_machine_does_not_come_sooner() -> None:
    machines = nodes(1, on_demand=np.array([True]), boot_s=np.array([50.0]))

    made = replayed(jobs((0, 100, 4)), machines, placement="packed", type_speed={"gpu": 2.0})

    assert made.end_s.tolist() == [50 + 100 / 2]


# -- nodes that go ---------------------------------------------------------------------------------


@pytest.mark.parametrize("placement", ["count", "packed"])
@pytest.mark.parametrize(
    ("warning_s", "lost_s"),
    [
        (0.0, 10 + 5),  # since the save at 90, and the price of a stop
        (4.9, 10 + 5),  # too short to save
        (5.0, 5),
        (120.0, 5),
    ],
)
def test_who_is_warned_in_time_loses_no_more_than_the_price_of_a_stop(
    placement: str, warning_s: float, lost_s: float
) -> None:
    machines = nodes(1, down(100, warning_s=warning_s), up(150))
    told = {"placement": placement, "saves_every_s": 30.0, "checkpoint_s": 5.0}

    made = replayed(jobs((0, 200, 4)), machines, "commons", **told)

    assert made.preemptions.tolist() == [1]
    assert made.lost_s.tolist() == [lost_s]
    assert made.end_s.tolist() == [150 + 200 - 100 + lost_s]


def test_who_saves_in_no_time_needs_a_warning_all_the_same() -> None:
    trace = jobs((0, 200, 4))

    told, untold = (
        replayed(trace, nodes(1, down(100, warning_s=s), up(150)), saves_every_s=0.0)
        for s in (1.0, 0.0)
    )

    assert (told.lost_s.tolist(), untold.lost_s.tolist()) == ([0], [100])


# -- goals -----------------------------------------------------------------------------------------


def clean_and_dirty() -> Machines:
    """Return two nodes where power is dirty and one, the last, where it is clean."""
    return nodes(
        3,
        cluster=np.array([0, 0, 1]),
        clusters=("dirty", "clean"),
        gram_co2_per_kwh=np.array([500.0, 500.0, 50.0]),
    )


@pytest.mark.parametrize(("goal", "on"), [("carbon", [2, 2, 0]), ("", [0, 0, 1])])
def test_to_save_carbon_the_cleaner_cluster_is_filled_first(goal: str, on: list[int]) -> None:
    trace = jobs((0, 200, 2), (0, 200, 2), (10, 100, 4))
    told = {"commons.goal": goal}

    made = replayed(trace, clean_and_dirty(), "commons", placement="packed", policy_options=told)

    assert [spans(made, job)[0][2] for job in range(3)] == on


@pytest.mark.parametrize(("fast", "on"), [(1.0, 0), (3.0, 1)])
def test_to_save_energy_power_counts_for_the_work_that_it_does(fast: float, on: int) -> None:
    machines = nodes(
        2, type=np.array([0, 1]), types=("old", "new"), busy_watts=np.array([260.0, 460.0])
    )
    told = {"placement": "packed", "policy_options": {"commons.goal": "energy"}}

    made = replayed(jobs((0, 30, 4)), machines, "commons", type_speed={"new": fast}, **told)

    assert made.segments.node.tolist() == [on]  # 200 W more, or 400 W for so many times the work


def refused(**settings: Any) -> StewardError:
    with pytest.raises(StewardError) as raised:
        replay(jobs((0, 10, 4)), clean_and_dirty(), "commons", LabSettings(**settings))
    return raised.value


def test_where_gpus_are_only_counted_there_is_nothing_to_choose() -> None:
    error = refused(placement="count", policy_options={"commons.goal": "carbon"})

    assert error.problem == "commons cannot save carbon where GPUs are only counted"
    assert error.hint == "choose where jobs go, such as --placement packed"


def test_a_goal_that_is_not_known_is_refused() -> None:
    error = refused(placement="packed", policy_options={"commons.goal": "speed"})

    assert "there is no goal called 'speed'; known: carbon, cost, energy" in error.problem


def test_fgd_knows_typical_jobs_by_pool_where_a_type_is_in_several_clusters() -> None:
    """Most jobs ask for two new GPUs: one GPU is taken where two are left for them."""
    machines = nodes(
        4,
        type=np.array([1, 1, 0, 0]),
        types=("old", "new"),
        cluster=np.array([0, 0, 0, 1]),
        clusters=("x", "y"),
    )
    rows = ((0, 100, 2), (1, 100, 1), *((1000 + i, 1, 2) for i in range(20)))

    made = replayed(jobs(*rows, gpu_type=["new"] * len(rows)), machines, placement="fgd")

    assert sorted((spans(made, 0)[0][2], spans(made, 1)[0][2])) == [0, 1]
