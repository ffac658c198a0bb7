"""Paths of flows: shortest, by NVLink inside a domain, by rail, spread over equal ways."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.model.fabric import shapes
from steward.model.fabric.builder import TopologyBuilder
from steward.model.fabric.routes import Routes
from steward.model.fabric.topology import NODE, NVLINK, SWITCH, FabricTopology

FABRICS = {
    "fat-tree": shapes.fat_tree(4),
    "leaf-spine": shapes.leaf_spine(leaves=3, nodes_per_leaf=3, spines=2, nics=2),
    "rails": shapes.rail_optimised(pods=2, nodes_per_pod=3, rails=2, spines=2),
    "dragonfly": shapes.dragonfly(),
    "islands": shapes.nvlink_islands(islands=2, nodes_per_island=3, spines=2, nics=2),
}


def _names(fabric: FabricTopology, links: np.ndarray) -> list[str]:
    return [fabric.names_of_links[link] for link in links]


@settings(max_examples=60)
@given(
    shape=st.sampled_from(sorted(FABRICS)),
    ends=st.tuples(st.integers(0, 8), st.integers(0, 8)),
    hash_=st.integers(0, 2**40),
    rail=st.integers(-1, 3),
)
def test_a_path_is_connected_shortest_and_passes_no_endpoint(
    shape: str, ends: tuple[int, int], hash_: int, rail: int
) -> None:
    fabric = FABRICS[shape]
    source, target = (fabric.endpoints[end % len(fabric.endpoints)] for end in ends)
    routes = Routes.of(fabric)
    paths = routes.paths(source, target, hashes=hash_, rails=rail)
    links = paths.of(0)

    assert paths.known.all()
    assert len(paths) == 1
    if source == target:
        assert len(links) == 0
        return
    assert fabric.links.source[links[0]] == source
    assert fabric.links.target[links[-1]] == target
    assert (fabric.links.source[links[1:]] == fabric.links.target[links[:-1]]).all()
    assert fabric.forwards[fabric.links.source[links[1:]]].all()
    assert len(links) >= routes.hops[routes.column[target], source]
    if rail < 0:
        assert len(links) == routes.hops[routes.column[target], source]


@settings(max_examples=30)
@given(shape=st.sampled_from(sorted(FABRICS)), seed=st.integers(0, 1000))
def test_use_expected_is_the_mean_over_many_hashes(shape: str, seed: int) -> None:
    fabric = FABRICS[shape]
    rng = np.random.default_rng(seed)
    source, target = rng.choice(fabric.endpoints, 2)
    routes = Routes.of(fabric)
    use = routes.expected_use(source, target, weights=2.0)
    paths = routes.paths(source, target, hashes=rng.integers(0, 2**40, 4000))
    counted = np.bincount(paths.links, minlength=len(fabric.links)) / 4000 * 2.0

    assert use == pytest.approx(counted, abs=0.12)


def test_members_of_an_nvlink_domain_use_nvlink_and_others_do_not() -> None:
    fabric = FABRICS["islands"]
    routes = Routes.of(fabric)
    inside = routes.paths(fabric.row["n0"], fabric.row["n2"], hashes=1, rails=1).of(0)
    outside = routes.paths(fabric.row["n0"], fabric.row["n3"], hashes=1).of(0)

    assert _names(fabric, inside) == ["n0>nvlink:island0", "nvlink:island0>n2"]
    assert not (fabric.links.kind[outside] == NVLINK).any()


def test_a_domain_without_a_wire_goes_over_the_fabric() -> None:
    builder = TopologyBuilder()
    for name in ("a", "b"):
        builder.vertex(name, NODE, domain="d")
        builder.cable(name, "leaf")
    builder.vertex("leaf", SWITCH)
    fabric = builder.build()

    ends = fabric.row["a"], fabric.row["b"]
    assert len(Routes.of(fabric).paths(*ends, hashes=0).of(0)) == 2


def test_a_flow_leaves_by_its_rail() -> None:
    fabric = FABRICS["rails"]
    routes = Routes.of(fabric)
    paths = routes.paths(fabric.row["n0"], fabric.row["n5"], hashes=range(50), rails=1)

    assert set(fabric.links.rail[paths.links]) == {1} | {0, 1} & set(fabric.links.rail[paths.links])
    assert {int(fabric.links.rail[paths.of(at)[0]]) for at in range(50)} == {1}


def test_a_broken_cable_is_gone_around_and_the_last_one_leaves_no_path() -> None:
    fabric = shapes.leaf_spine(leaves=2, nodes_per_leaf=1, spines=2)
    ends = fabric.row["n0"], fabric.row["n1"]
    first = fabric.without([fabric.link_row["leaf0>spine0"]])
    none = first.without([fabric.link_row["spine1>leaf0"]])

    around = Routes.of(first).paths(*ends, hashes=range(20))
    assert {"leaf0>spine1"} == {
        name for name in _names(first, around.links) if name.startswith("leaf0>spine")
    }
    cut = Routes.of(none).paths(*ends, hashes=[1, 2])
    assert not cut.known.any()
    assert len(cut.links) == 0
    assert Routes.of(none).expected_use(*ends).sum() == 0


def test_a_flow_to_a_switch_has_no_path_that_is_known() -> None:
    fabric = FABRICS["fat-tree"]

    paths = Routes.of(fabric).paths(fabric.row["n0"], fabric.row["core0"], hashes=0)
    assert not paths.known[0]


def test_a_fabric_of_one_node_has_paths_to_itself_alone() -> None:
    builder = TopologyBuilder()
    builder.vertex("n1", NODE)
    paths = Routes.of(builder.build()).paths(0, 0, hashes=3)

    assert paths.known.all()
    assert len(paths.links) == 0
