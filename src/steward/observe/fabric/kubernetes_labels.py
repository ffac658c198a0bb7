"""Topology labels of Kubernetes nodes, as in `kubectl get nodes -o json`.

Labels of topograph, of the clouds, or the standard ones, from the highest level to the lowest.
"""

from __future__ import annotations

from steward.errors import StewardError
from steward.model.fabric.builder import TopologyBuilder
from steward.model.fabric.topology import NODE, SWITCH, FabricTopology
from steward.observe.fabric.documents import items, json_of, mapping

__all__ = ["LEVELS", "read_kubernetes"]

LEVELS: tuple[tuple[str, ...], ...] = (
    (
        "network.topology.nvidia.com/core",
        "network.topology.nvidia.com/spine",
        "network.topology.nvidia.com/leaf",
    ),
    ("topology.k8s.aws/network-node-layer-1", "topology.k8s.aws/network-node-layer-2",
     "topology.k8s.aws/network-node-layer-3"),
    ("cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/zone", "topology.kubernetes.io/rack"),
)  # fmt: skip
_DOMAINS = ("network.topology.nvidia.com/accelerator", "nvidia.com/gpu.clique")


def read_kubernetes(text: str, where: str = "") -> FabricTopology:
    """Read nodes; the first family of labels that any node has is the tree.

    A node without a label of that family is there, and no switch names it.
    """
    document = mapping(json_of(text, where), "the file", where)
    listed = items(document.get("items"), "items", where) if "items" in document else [document]
    nodes: dict[str, dict[str, str]] = {}
    for each in listed:
        about = mapping(mapping(each, "a node", where).get("metadata"), "metadata", where)
        labels = mapping(about.get("labels"), "labels", where)
        if not about.get("name"):
            raise StewardError("a node has no name", where=where)
        nodes[str(about["name"])] = {key: str(value) for key, value in labels.items()}
    family = next(
        (each for each in LEVELS if any(key in own for own in nodes.values() for key in each)), ()
    )
    return _tree(nodes, family, where)


def _tree(nodes: dict[str, dict[str, str]], family: tuple[str, ...], where: str) -> FabricTopology:
    builder = TopologyBuilder(where or "kubernetes")
    for name, labels in nodes.items():
        domain = next((labels[key] for key in _DOMAINS if labels.get(key)), "")
        builder.vertex(name, NODE, domain=domain)
        way = [labels[key] for key in family if labels.get(key)]
        if not way:
            builder.unplaced([name])
            continue
        names = [_full(way[: at + 1], family) for at in range(len(way))]
        builder.cable(name, names[-1], ports=("uplink", name), told_by=[name])
        for lower, upper in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
            builder.cable(lower, upper, ports=("uplink", lower), told_by=[lower, upper])
        for each in names:
            builder.vertex(each, SWITCH)
    return builder.build()


def _full(way: list[str], family: tuple[str, ...]) -> str:
    """Return a name that is unique: racks of two zones may be called alike, switches are not."""
    unique = family[0].startswith(("network.topology", "topology.k8s.aws"))
    return way[-1] if unique else "/".join(way)
