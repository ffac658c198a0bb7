"""Gangs: counted, packed, spread, close together."""

from __future__ import annotations

import numpy as np
import pytest

from decide.placement.cluster_states import chosen, state, want
from steward.decide.placement import NodeOccupancy, Placement, locality

COUNT, PACKED, SPREAD, TOPOLOGY = (
    Placement.COUNT,
    Placement.PACKED,
    Placement.SPREAD,
    Placement.TOPOLOGY,
)


def test_counting_takes_free_gpus_wherever_they_are_lowest_node_first() -> None:
    nodes = state([8, 8, 8], used=[6, 8, 3])

    assert chosen(COUNT, nodes, want(5)) == [(0, 2), (2, 3)]
    assert chosen(COUNT, nodes, want(8)) == []


def test_packed_uses_the_fullest_node_that_holds_the_gang() -> None:
    nodes = state([8, 8, 8], used=[0, 5, 3])

    assert chosen(PACKED, nodes, want(3)) == [(1, 3)]
    assert chosen(PACKED, nodes, want(4)) == [(2, 4)]
    assert chosen(PACKED, nodes, want(8)) == [(0, 8)]


def test_packed_does_not_split_a_gang_that_one_node_could_hold() -> None:
    nodes = state([8, 8], used=[4, 5])

    assert chosen(PACKED, nodes, want(6)) == []
    assert chosen(COUNT, nodes, want(6)) == [(0, 4), (1, 2)]


def test_packed_gives_wide_gangs_whole_nodes_and_the_rest_of_it_the_fullest_node() -> None:
    nodes = state([8, 8, 8, 8], used=[0, 3, 0, 4])

    assert chosen(PACKED, nodes, want(20)) == [(0, 8), (2, 8), (3, 4)]
    assert chosen(PACKED, nodes, want(22)) == []


def test_packed_fills_large_nodes_first_and_small_ones_where_that_is_all_there_is() -> None:
    assert chosen(PACKED, state([4, 8, 4]), want(12)) == [(1, 8), (0, 4)]
    assert chosen(PACKED, state([4, 8, 4, 4], used=[0, 8, 0, 0]), want(12)) == [
        (0, 4),
        (2, 4),
        (3, 4),
    ]


def test_spread_fills_the_emptiest_node_first() -> None:
    nodes = state([8, 8, 8], used=[4, 1, 2])

    assert chosen(SPREAD, nodes, want(2)) == [(1, 2)]
    assert chosen(SPREAD, nodes, want(9)) == [(1, 7), (2, 2)]


def test_topology_stays_in_the_smallest_domain_that_holds_the_gang() -> None:
    nodes = state(
        [8] * 6,
        used=[6, 2, 5, 5, 4, 0],
        racks=[0, 0, 1, 1, 2, 2],
        switches=[0, 0, 0, 0, 1, 1],
    )

    assert chosen(TOPOLOGY, nodes, want(2)) == [(0, 2)]
    assert chosen(TOPOLOGY, nodes, want(7)) == [(5, 7)]
    assert chosen(TOPOLOGY, nodes, want(10)) == [(5, 8), (4, 2)]
    assert chosen(TOPOLOGY, nodes, want(13)) == [(1, 6), (2, 3), (3, 3), (0, 1)]
    assert len(chosen(TOPOLOGY, nodes, want(20))) == 4
    assert chosen(TOPOLOGY, nodes, want(27)) == []


def test_topology_prefers_the_domain_with_the_least_room() -> None:
    nodes = state([4, 4, 4, 4], used=[0, 0, 1, 2], racks=[0, 0, 1, 1])

    assert chosen(TOPOLOGY, nodes, want(5)) == [(2, 3), (3, 2)]
    assert chosen(TOPOLOGY, nodes, want(6)) == [(0, 4), (1, 2)]


@pytest.mark.parametrize("kind", [COUNT, PACKED, SPREAD, TOPOLOGY])
def test_no_gang_spans_two_clusters(kind: Placement) -> None:
    nodes = state(
        [8, 8, 8], used=[2, 0, 0], clusters=[0, 1, 1], racks=[0, 1, 1], switches=[0, 1, 1]
    )

    used = {node for node, _ in chosen(kind, nodes, want(16))}

    assert used == {1, 2}
    assert chosen(kind, nodes, want(17)) == []


@pytest.mark.parametrize("kind", list(Placement))
def test_down_nodes_and_other_types_are_left_alone(kind: Placement) -> None:
    nodes = state([8, 8, 8], up=[False, True, True], types=[0, 1, 0])

    assert chosen(kind, nodes, want(2, type_mask=0b01)) == [(2, 2)]
    assert chosen(kind, nodes, want(2, type_mask=0b10)) == [(1, 2)]
    assert chosen(kind, nodes, want(2, type_mask=0b100)) == []


@pytest.mark.parametrize("kind", list(Placement))
def test_a_gang_takes_its_part_of_cpus_and_memory_on_every_node(kind: Placement) -> None:
    nodes = state([8, 8], cpus=16.0, memory=64.0)

    assert sum(gpus for _, gpus in chosen(kind, nodes, want(12, cpus=24.0, memory=96.0))) == 12
    assert chosen(kind, nodes, want(12, cpus=40.0)) == []
    assert chosen(kind, nodes, want(12, memory=140.0)) == []


@pytest.mark.parametrize("kind", list(Placement))
def test_nothing_fits_where_there_are_no_nodes(kind: Placement) -> None:
    nodes = state([])

    assert chosen(kind, nodes, want(1)) == []
    assert chosen(kind, nodes, want(0, 500)) == []
    assert chosen(kind, nodes, want(0, cpus=1.0)) == []


def test_wide_gangs_of_scored_kinds_stay_close_together() -> None:
    nodes = state([4] * 4, racks=[0, 1, 1, 0])

    assert (
        chosen(Placement.FGD, nodes, want(8))
        == chosen(TOPOLOGY, nodes, want(8))
        == [
            (0, 4),
            (3, 4),
        ]
    )


def apart(nodes: NodeOccupancy, *chosen_nodes: int) -> int:
    return locality(nodes, np.array(chosen_nodes, np.int64), len(chosen_nodes))


def test_locality_is_node_rack_switch_or_beyond() -> None:
    nodes = state(
        [8] * 5, racks=[0, 0, 1, 2, 3], switches=[0, 0, 0, 1, 2], clusters=[0, 0, 0, 0, 1]
    )

    assert apart(nodes, 0) == apart(nodes, 2, 2) == 0
    assert apart(nodes, 0, 1) == 1
    assert apart(nodes, 0, 1, 2) == apart(nodes, 2, 0, 1) == 2
    assert apart(nodes, 0, 3) == apart(nodes, 0, 1, 4) == 3
