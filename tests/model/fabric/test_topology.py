"""Topologies put together from both ends of their cables, and as they are built."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.model.fabric import shapes
from steward.model.fabric.builder import TopologyBuilder
from steward.model.fabric.topology import (
    NODE,
    NVLINK,
    NVSWITCH,
    SWITCH,
    UNKNOWN,
    FabricTopology,
)


def test_a_cable_that_both_ends_tell_of_is_one_cable_and_its_slower_speed_counts() -> None:
    builder = TopologyBuilder("test")
    builder.vertex("leaf", SWITCH)
    builder.vertex("n1", NODE)
    builder.cable("leaf", "n1", ports=("p1", "ib0"), told_by=["leaf"], bytes_per_s=50.0)
    builder.cable("n1", "leaf", ports=("ib0", "p1"), told_by=["n1"], bytes_per_s=25.0, rail=3)
    seen = builder.build()

    assert len(seen.links) == 2
    assert seen.links.ends_seen.tolist() == [2, 2]
    assert seen.links.bytes_per_s.tolist() == [25.0, 25.0]
    assert seen.links.rail.tolist() == [3, 3]


def test_a_cable_that_one_end_tells_of_is_kept_and_says_so() -> None:
    builder = TopologyBuilder()
    builder.vertex("n1", NODE)
    builder.cable("n1", "what", ports=("eth0", ""), told_by=["n1"])
    builder.cable("n1", "what", ports=("eth1", ""), told_by=["n1"])
    seen = builder.build()

    assert seen.links.ends_seen.tolist() == [1, 1, 1, 1]
    assert seen.vertices.kind[seen.row["what"]] == UNKNOWN == builder.kind_of("what")
    assert math.isnan(seen.links.bytes_per_s[0])
    assert builder.kind_of("nobody") == UNKNOWN
    assert "n1" in builder


def test_ports_that_were_moved_to_another_switch_make_another_cable() -> None:
    builder = TopologyBuilder()
    builder.cable("a", "b", ports=("p1", "p1"))
    builder.cable("a", "c", ports=("p1", "p9"), up=False)

    assert len(builder.build().links) == 4


def test_a_cable_is_up_only_if_both_ends_say_so() -> None:
    builder = TopologyBuilder()
    builder.cable("a", "b", ports=("1", "2"), up=True, kind=NVLINK)
    builder.cable("b", "a", ports=("2", "1"), up=False)

    assert not builder.build().links.up.any()


def test_tiers_are_hops_from_the_nearest_endpoint_where_nobody_says_them() -> None:
    builder = TopologyBuilder()
    builder.vertex("n1", NODE)
    builder.cable("n1", "leaf")
    builder.cable("leaf", "spine")
    builder.vertex("lost", SWITCH)
    builder.vertex("top", SWITCH, tier=9)
    seen = builder.build()

    tiers = dict(zip(seen.vertices.names, seen.vertices.tier.tolist(), strict=True))
    assert tiers == {"n1": 0, "leaf": 1, "spine": 2, "lost": -1, "top": 9}


def test_nodes_that_no_switch_names_are_there_without_a_link() -> None:
    builder = TopologyBuilder()
    builder.unplaced(["n7", "n8", "n7"])
    seen = builder.build()

    assert seen.unplaced == ("n7", "n8")
    assert len(seen.endpoints) == 2
    assert len(seen.links) == 0


def test_each_nvlink_domain_gets_a_switch_of_its_own() -> None:
    seen = shapes.nvlink_islands(islands=2, nodes_per_island=3, spines=1, nics=1)

    switches = np.flatnonzero(seen.vertices.kind == NVSWITCH)
    assert len(switches) == 2
    assert seen.domains == ("island0", "island1")
    assert seen.members(0) == ("n0", "n1", "n2")
    assert (seen.links.kind == NVLINK).sum() == 12


def test_names_of_links_are_unique_where_cables_run_side_by_side() -> None:
    seen = shapes.leaf_spine(leaves=1, nodes_per_leaf=1, spines=1, nics=2)

    assert seen.names_of_links[0] == "n0>leaf0"
    assert seen.names_of_links[2] == "n0>leaf0#2"
    assert seen.link_row["leaf0>n0#2"] == 3


def test_a_name_that_is_not_there_is_named() -> None:
    with pytest.raises(StewardError, match="'n99' is not in this topology"):
        shapes.fat_tree(2).rows(["n0", "n99"])


def test_capacities_that_nobody_knows_can_be_assumed_and_measured_ones_win() -> None:
    builder = TopologyBuilder()
    builder.cable("a", "b")
    builder.cable("a", "c", bytes_per_s=7.0)
    seen = builder.build().with_capacity(5.0)

    assert seen.links.bytes_per_s.tolist() == [5.0, 5.0, 7.0, 7.0]
    measured = seen.with_capacities(np.array([np.nan, 2.0, np.nan, np.nan]))
    assert measured.links.bytes_per_s.tolist() == [5.0, 2.0, 7.0, 7.0]


def test_a_cable_that_is_down_is_down_in_both_directions() -> None:
    seen = shapes.fat_tree(2).without([1])

    assert seen.links.up.tolist()[:4] == [False, False, True, True]


def test_in_and_out_links_are_grouped_by_their_vertex() -> None:
    seen = shapes.dragonfly(groups=2, routers=2, nodes_per_router=1)
    begin, rows = seen.out_links
    into, back = seen.in_links

    for vertex in range(len(seen.vertices)):
        assert all(seen.links.source[rows[begin[vertex] : begin[vertex + 1]]] == vertex)
        assert all(seen.links.target[back[into[vertex] : into[vertex + 1]]] == vertex)


def _count(topology: FabricTopology, kind: int) -> int:
    return int((topology.vertices.kind == kind).sum())


@given(half=st.integers(1, 4))
def test_a_fat_tree_has_the_nodes_switches_and_cables_of_its_ports(half: int) -> None:
    k = 2 * half
    tree = shapes.fat_tree(k)

    assert _count(tree, NODE) == k**3 // 4
    assert _count(tree, SWITCH) == 5 * k * k // 4
    assert len(tree.links) // 2 == 3 * k**3 // 4


@given(
    leaves=st.integers(1, 5),
    nodes=st.integers(1, 5),
    spines=st.integers(1, 4),
    nics=st.integers(1, 3),
    over=st.floats(0.5, 8),
)
def test_a_leaf_carries_up_what_its_oversubscription_says(
    leaves: int, nodes: int, spines: int, nics: int, over: float
) -> None:
    fabric = shapes.leaf_spine(
        leaves=leaves, nodes_per_leaf=nodes, spines=spines, nics=nics, oversubscription=over
    )
    leaf = fabric.row["leaf0"]
    out = fabric.links.source == leaf
    to_node = fabric.vertices.kind[fabric.links.target] == NODE
    down = fabric.links.bytes_per_s[out & to_node].sum()
    up = fabric.links.bytes_per_s[out & ~to_node].sum()

    assert down / up == pytest.approx(over)


def test_each_nic_of_a_rail_optimised_node_is_at_a_switch_of_its_own() -> None:
    fabric = shapes.rail_optimised(pods=2, nodes_per_pod=2, rails=4, spines=2, domain_nodes=2)
    begin, rows = fabric.out_links
    own = rows[begin[fabric.row["n3"]] : begin[fabric.row["n3"] + 1]]
    rails = {
        int(fabric.links.rail[at]): fabric.vertices.names[fabric.links.target[at]] for at in own
    }

    assert rails == {
        -1: "nvlink:island1",
        **{rail: f"pod1-rail{rail}" for rail in range(4)},
    }


def test_each_two_groups_of_a_dragonfly_share_one_cable() -> None:
    fabric = shapes.dragonfly(groups=4, routers=2, nodes_per_router=1, global_bytes_per_s=3.0)

    assert (fabric.links.bytes_per_s == 3.0).sum() == 2 * 6


@pytest.mark.parametrize(
    "make",
    [
        lambda: shapes.fat_tree(3),
        lambda: shapes.leaf_spine(leaves=0),
        lambda: shapes.leaf_spine(oversubscription=0),
        lambda: shapes.rail_optimised(rails=0),
        lambda: shapes.rail_optimised(oversubscription=-1),
        lambda: shapes.dragonfly(groups=0),
    ],
)
def test_a_shape_that_cannot_be_built_is_refused(make: Callable[[], FabricTopology]) -> None:
    with pytest.raises(StewardError):
        make()
