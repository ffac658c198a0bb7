"""Topology files in every form, and what is wrong with some."""

from __future__ import annotations

import json

import numpy as np
import pytest

from steward.errors import StewardError
from steward.model.fabric.routes import Routes
from steward.model.fabric.topology import GPU, NVLINK, UNKNOWN, FabricTopology
from steward.observe.fabric import FORMS, form_of, read_topology

TREE = """
# a comment
SwitchName=s0 Switches=s[1-2] LinkSpeed=100
switchname=s1 nodes=n[1-2]
SwitchName=s2 \\
   Nodes=n[3-4]   # more
"""
BLOCKS = "BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockSizes=4,8\n"
SLURM_YAML = """
- topology: topo1
  cluster_default: true
  tree:
    switches:
      - switch: s0
        children: s[1-2]
      - switch: s1
        nodes: n[1-2]
      - switch: s2
        nodes: n[3-4]
- topology: topo2
  block:
    block_sizes: [2, 4]
    blocks:
      - block: b1
        nodes: n[1-2]
- topology: topo3
  flat: true
"""
TOPOGRAPH = """
switches:
  core:
    switches: [leaf1, leaf2]
blocks:
- switch: leaf1
  nodes: ["n[1-2]"]
  annotations: {accelerator.topology.test/domain: nvl1}
- switch: leaf2
  nodes: [n3]
- nodes: [n9]
"""
IB = """#
# Topology file: generated on Tue Mar  4 2025
#
vendid=0x2c9
devid=0xd2f2
switchguid=0xb8cef60300aaaa(b8cef60300aaaa)
Switch\t41 "S-b8cef60300aaaa"\t\t# "MF0;leaf1:MQM8700/U1" enhanced port 0 lid 3 lmc 0
[1]\t"H-1070fd0300bbbb"[1](1070fd0300bbbb) \t\t# "n1 mlx5_0" lid 7 4xHDR
[2]\t"H-1070fd0300cccc"[1](1070fd0300cccc) \t\t# "n1 mlx5_1" lid 8 4xHDR
[40]\t"S-b8cef60300dddd"[7]\t\t# "gone" lid 9 4xNDR

vendid=0x2c9
caguid=0x1070fd0300bbbb
Ca\t1 "H-1070fd0300bbbb"\t\t# "n1 mlx5_0"
[1](1070fd0300bbbb) \t"S-b8cef60300aaaa"[1]\t\t# lid 7 lmc 0 "MF0;leaf1:MQM8700/U1" lid 3 4xEDR

caguid=0x1070fd0300cccc
Ca\t1 "H-1070fd0300cccc"\t\t# "n1 mlx5_1"
[1](1070fd0300cccc) \t"S-b8cef60300aaaa"[2]\t\t# lid 8 lmc 0 "leaf1" lid 3 4xHDR
"""
LLDP = {
    "lldp": {
        "interface": [
            {
                "eth0": {
                    "via": "LLDP",
                    "chassis": {"leaf1": {"id": {"type": "mac", "value": "00:11"}}},
                    "port": {"id": {"type": "ifname", "value": "Ethernet1"}},
                }
            },
            {
                "eth1": {
                    "chassis": {"id": {"type": "mac", "value": "00:22"}},
                    "port": {"id": {"type": "ifname", "value": "Ethernet7"}},
                }
            },
        ]
    }
}
LLDP_LINES = """lldp.eth0.via=LLDP
lldp.eth0.chassis.mac=00:11:22
lldp.eth0.chassis.name=leaf1.site
lldp.eth0.port.ifname=Ethernet1
lldp.eth1.chassis.mac=00:33
"""
TOPO = """\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tPIX\t0-47\t0\t\tN/A
GPU1\tNV18\t X \tSYS\t48-95\t1\t\tN/A
NIC0\tPIX\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
"""
LINGJUN = "host,dsw,psw,asw\n0,G6,P10,S14\n1,G6,P10,S14\n2,G6,P12,S2\n3,,,\n"


def _nodes(*labels: dict[str, str]) -> str:
    items = [{"metadata": {"name": f"n{at}", "labels": own}} for at, own in enumerate(labels)]
    return json.dumps({"kind": "List", "items": items})


LEAF, SPINE = "network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine"
KUBERNETES = _nodes(
    {LEAF: "l1", SPINE: "s1", "network.topology.nvidia.com/accelerator": "nvl1"},
    {LEAF: "l2", SPINE: "s1"},
    {},
)
TEXTS = {
    "slurm-conf": TREE, "slurm-yaml": SLURM_YAML, "topograph": TOPOGRAPH, "ibnetdiscover": IB,
    "lldp": json.dumps(LLDP), "kubernetes": KUBERNETES, "nvidia-topo": TOPO, "lingjun": LINGJUN,
}  # fmt: skip


def _links(seen: FabricTopology) -> set[str]:
    return set(seen.names_of_links[::2])


@pytest.mark.parametrize("form", sorted(FORMS))
def test_each_form_is_found_by_its_content(form: str) -> None:
    assert form_of(TEXTS[form]) == form
    assert len(read_topology(TEXTS[form], where="x").vertices)


def test_a_tree_of_switches_is_wired_as_slurm_says() -> None:
    seen = read_topology(TREE)

    assert _links(seen) == {"s1>s0", "s2>s0", "n1>s1", "n2>s1", "n3>s2", "n4>s2"}
    assert len(Routes.of(seen).paths(seen.row["n1"], seen.row["n4"], hashes=0).of(0)) == 4
    assert np.isnan(seen.links.bytes_per_s).all()


def test_blocks_are_domains_and_how_they_are_wired_together_is_unknown() -> None:
    seen = read_topology(BLOCKS)

    assert seen.domains == ("b1", "b2")
    assert seen.members(1) == ("n5", "n6", "n7", "n8")
    assert not Routes.of(seen).paths(seen.row["n1"], seen.row["n5"], hashes=0).known[0]


def test_all_topologies_of_a_yaml_file_are_one_fabric() -> None:
    seen = read_topology(SLURM_YAML)

    assert {"s1>s0", "n1>s1", "n1>block:b1"} <= _links(seen)
    assert seen.domains == ("b1",)


def test_a_topograph_model_has_domains_and_nodes_that_no_switch_names() -> None:
    seen = read_topology(TOPOGRAPH)

    assert seen.members(0) == ("n1", "n2")
    assert seen.unplaced == ("n9",)
    assert seen.vertices.tier[seen.row["core"]] == 2


def test_cables_of_ibnetdiscover_are_told_by_both_ends_and_far_ends_may_be_unknown() -> None:
    seen = read_topology(IB)
    leaf = "MF0;leaf1:MQM8700/U1"
    first, second = seen.link_row[f"{leaf}>n1"], seen.link_row[f"{leaf}>n1#2"]
    lost = seen.link_row[f"{leaf}>S-b8cef60300dddd"]

    assert seen.links.ends_seen[[first, second, lost]].tolist() == [2, 2, 1]
    assert seen.links.rail[[first, second]].tolist() == [0, 1]
    assert seen.links.bytes_per_s[first] == 12.5e9  # one end says EDR: that is what it runs at
    assert seen.links.bytes_per_s[lost] == 50e9
    assert seen.vertices.kind[seen.row["S-b8cef60300dddd"]] == UNKNOWN


def test_neighbours_by_lldp_are_known_from_one_end() -> None:
    seen = read_topology(json.dumps(LLDP), where="/tmp/n1.json")

    assert _links(seen) == {"n1>leaf1", "n1>00:22"}
    assert seen.links.ends_seen.tolist() == [1] * 4
    one = {"lldp": {"interface": LLDP["lldp"]["interface"][0]}}
    assert _links(read_topology(json.dumps(one), where="n2")) == {"n2>leaf1"}


def test_lines_of_lldp_may_have_names_with_dots_or_none() -> None:
    assert _links(read_topology(LLDP_LINES, where="n1")) == {"n1>leaf1.site", "n1>00:33"}


def test_labels_of_nodes_are_levels_and_a_node_without_is_unplaced() -> None:
    seen = read_topology(KUBERNETES)

    assert _links(seen) == {"n0>l1", "l1>s1", "n1>l2", "l2>s1"}
    assert seen.domains == ("nvl1",)
    assert seen.unplaced == ("n2",)


def test_racks_of_two_zones_that_are_called_alike_are_two() -> None:
    zone, rack = "topology.kubernetes.io/zone", "topology.kubernetes.io/rack"
    seen = read_topology(_nodes({zone: "a", rack: "r1"}, {zone: "b", rack: "r1"}))

    assert _links(seen) == {"n0>a/r1", "a/r1>a", "n1>b/r1", "b/r1>b"}


def test_one_node_alone_is_a_cluster_of_one() -> None:
    seen = read_topology('{"metadata": {"name": "n0", "labels": {}}}')

    assert (len(seen.endpoints), len(seen.links), seen.unplaced) == (1, 0, ("n0",))


def test_gpus_of_a_machine_are_wired_by_nvlink() -> None:
    seen = read_topology(TOPO)
    link = seen.link_row["GPU1>GPU0"]

    assert seen.links.kind[link] == NVLINK
    assert seen.links.bytes_per_s[link] == 450e9
    assert (seen.vertices.kind == GPU).sum() == 2
    assert "mlx5_0>GPU0" in _links(seen)
    assert seen.members(0) == ("GPU0", "GPU1")


def test_hosts_of_lingjun_share_their_switches() -> None:
    seen = read_topology(LINGJUN)

    assert len(seen.links) // 2 == 3 + 2 + 2
    assert seen.unplaced == ("host3",)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a", "circle: a > b > a"),
        ("SwitchName=a Switches=a", "circle: a > a"),
        ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1", "n1 is below a and below b"),
        ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2", "switch a is there twice"),
        ("SwitchName=a Nodes=b\nSwitchName=b Nodes=n2", "b is a node and a switch"),
        ("SwitchName=a Colour=red", "'Colour=red' is not understood"),
        ("BlockName=a Nodes=n1\nBlockName=b Nodes=n1", "n1 is in block a and in b"),
        ("switches: [", "not YAML"),
        ("switches: 7", "switches is not a mapping"),
        ("switches: {a: {switches: b}}", "switches of a is not a list"),
        ("blocks:\n- switch: nowhere\n  nodes: [n1]", "below switch nowhere"),
        ("switches: {}", "neither switch nor node"),
        ("- topology: t\n  tree: {switches: [{nodes: n1}]}", "a switch has no name"),
        ("topology: t", "the file is not a list"),
        ('{"lldp": {}}', "no interface has a neighbour"),
        ('{"lldp": ', "not JSON"),
        ('{"items": [{"metadata": {}}]}', "a node has no name"),
        ("Switch\t", "no switch or adapter"),
        ("\tGPU0\tGPU1\nGPU0\t X \nGPU1\tNV1\t X \n", "the line of GPU0 is cut off"),
        ("nonsense", "no topology in a known form"),
        ("", "no topology in a known form"),
    ],
)
def test_what_is_wrong_is_named(text: str, says: str) -> None:
    with pytest.raises(StewardError, match=says.replace("[", r"\[")):
        read_topology(text, where="f")


def test_a_form_and_a_head_that_are_not_there_are_named() -> None:
    with pytest.raises(StewardError, match="there is no form 'tree'"):
        read_topology(TREE, form="tree")
    with pytest.raises(StewardError, match="columns are missing: dsw"):
        read_topology("host,psw,asw\n", form="lingjun")
    with pytest.raises(StewardError, match="no line that names the GPUs"):
        read_topology("x", form="nvidia-topo")
