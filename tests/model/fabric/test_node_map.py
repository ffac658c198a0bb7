from __future__ import annotations

import numpy as np
import pytest

from fabric_scenes import GB, cluster, heavy, job_on
from steward.errors import StewardError
from steward.model.fabric.builder import TopologyBuilder
from steward.model.fabric.node_map import node_map
from steward.model.fabric.placed_job import (
    PlacedJob,
    TrafficProfile,
    contention_of,
    entries_of,
    ideal_s,
)
from steward.model.fabric.shapes import fat_tree, leaf_spine, nvlink_islands, rail_optimised
from steward.model.fabric.topology import NODE, SWITCH


def test_nodes_of_one_leaf_and_of_one_pod_have_the_same_numbers() -> None:
    place = node_map(fat_tree(4))

    assert place.leaf.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]
    assert place.pod.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]
    assert len(place) == 16


def test_nodes_on_the_same_rails_are_of_one_leaf() -> None:
    place = node_map(rail_optimised(pods=2, nodes_per_pod=3, rails=4))

    assert place.leaf.tolist() == [0, 0, 0, 1, 1, 1]
    assert place.nics == 4


def test_a_capacity_that_nobody_knows_is_refused() -> None:
    builder = TopologyBuilder("t.yaml")
    builder.vertex("sw", SWITCH)
    builder.vertex("a", NODE)
    builder.cable("a", "sw")

    with pytest.raises(StewardError, match="capacity of 2 links is unknown"):
        node_map(builder.build())


def test_a_topology_without_wired_nodes_is_refused_and_unplaced_nodes_are_left_out() -> None:
    builder = TopologyBuilder("t.yaml")
    builder.unplaced(["lonely"])
    with pytest.raises(StewardError, match="no switch names a node"):
        node_map(builder.build())

    builder.vertex("sw", SWITCH)
    builder.vertex("a", NODE)
    builder.cable("a", "sw", bytes_per_s=1e9)
    assert node_map(builder.build()).names == ("a",)


def test_a_ring_inside_an_nvlink_domain_crosses_no_network() -> None:
    place = node_map(nvlink_islands(islands=2, nodes_per_island=4))

    links, flows = entries_of(place, job_on("j", (0, 1, 2)), 0)

    assert links.tolist() == []
    assert flows.tolist() == []


def test_a_ring_on_one_leaf_crosses_only_the_links_of_its_nodes() -> None:
    place = cluster()

    links, flows = entries_of(place, job_on("j", (0, 1)), 0)

    ends = place.topology.vertices.tier[place.topology.links.source[links]]
    assert len(links) == 8  # two nodes, two NICs, both directions
    assert set(flows.tolist()) == {1.0}
    assert set(ends.tolist()) == {0, 1}


def test_the_same_job_with_other_ports_may_take_other_spines_but_not_other_nics() -> None:
    place = cluster()
    job = job_on("j", (0, 4, 8, 12))

    drawn = {tuple(entries_of(place, job, salt)[0].tolist()) for salt in range(8)}

    assert len(drawn) > 1
    assert entries_of(place, job, 3)[0] is entries_of(place, job, 3)[0]  # remembered


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steward.model.fabric.placed_job._KEPT", 3)
    place = cluster()

    for salt in range(10):
        entries_of(place, job_on("j", (0, 4)), salt)

    assert len(place.crossings) <= 3


def test_the_node_with_the_fewest_gpus_decides_how_many_channels_there_are() -> None:
    job = PlacedJob(job="j", profile=heavy(), nodes=(0, 1), gpus=(8, 1))

    assert job.channels(2) == 1
    assert PlacedJob(job="j", profile=heavy(), nodes=(), gpus=()).channels(2) == 1
    scene = contention_of(cluster(), [job], [entries_of(cluster(), job, 0)])
    assert scene.volume_bytes.tolist() == [50 * GB]


def test_an_ideal_iteration_has_all_nics_of_whole_nodes() -> None:
    place = cluster()

    assert ideal_s(heavy(), 2, place) == pytest.approx(2.0)
    assert ideal_s(heavy(), 1, place) == pytest.approx(1.0 + 50 / 300)


@pytest.mark.parametrize(
    "change",
    [{"compute_s": 0.0}, {"node_bytes": -1.0}, {"overlap_share": 1.5}, {"node_bytes": np.inf}],
)
def test_profiles_that_cannot_be_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(StewardError, match=next(iter(change))):
        TrafficProfile(**{"compute_s": 1.0, "node_bytes": 1.0, **change})


def test_a_cluster_of_one_node_has_no_pod_above_its_leaf_but_works() -> None:
    place = node_map(leaf_spine(leaves=1, nodes_per_leaf=1, spines=1))

    assert (place.leaf.tolist(), len(place)) == ([0], 1)
    assert place.link_name(0) == "n0 → leaf0"


def test_a_ring_of_one_node_crosses_nothing() -> None:
    links, flows = entries_of(cluster(), job_on("j", (3,)), 0)

    assert len(links) == len(flows) == 0
