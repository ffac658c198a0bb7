"""topograph's models of clusters: a mapping of switches, and blocks of nodes below them."""

from __future__ import annotations

import itertools

from steward.errors import StewardError
from steward.model.fabric.builder import TopologyBuilder
from steward.model.fabric.topology import NODE, FabricTopology
from steward.model.hostlist import hosts
from steward.observe.fabric.documents import items, mapping, yaml_of
from steward.observe.fabric.tree import SwitchLine, build_tree

__all__ = ["read_topograph"]


def read_topograph(text: str, where: str = "") -> FabricTopology:
    """Read switches and blocks; an annotation that ends in `/domain` names an NVLink domain.

    Nodes of blocks without a switch are there, and no switch names them.
    """
    model = mapping(yaml_of(text, where), "the file", where)
    builder = TopologyBuilder(where or "topograph")
    below: dict[str, tuple[str, ...]] = {}
    for name, line in mapping(model.get("switches"), "switches", where).items():
        listed = items(mapping(line, name, where).get("switches"), f"switches of {name}", where)
        below[name] = tuple(str(each) for each in listed)
    nodes: dict[str, list[str]] = {name: [] for name in below}
    for each in itertools.chain.from_iterable(below.values()):
        nodes.setdefault(each, [])
    for line in items(model.get("blocks"), "blocks", where):
        block = mapping(line, "a block", where)
        listed = [
            name
            for part in items(block.get("nodes"), "nodes of a block", where)
            for name in hosts(str(part))
        ]
        _add(builder, listed, _domain(block, where))
        switch = block.get("switch")
        if switch is None:
            builder.unplaced(listed)
        elif str(switch) not in nodes:
            raise StewardError(
                f"a block is below switch {switch}, which is not among the switches", where=where
            )
        else:
            nodes[str(switch)] += listed
    lines = [
        SwitchLine(name=name, switches=below.get(name, ()), nodes=tuple(own))
        for name, own in nodes.items()
    ]
    build_tree(builder, lines, where=where)
    return builder.build()


def _domain(block: object, where: str) -> str:
    annotations = mapping(mapping(block, "a block", where).get("annotations"), "annotations", where)
    found = (str(value) for key, value in annotations.items() if key.endswith("/domain"))
    return next(found, "")


def _add(builder: TopologyBuilder, nodes: list[str], domain: str) -> None:
    for node in nodes:
        builder.vertex(node, NODE, domain=domain)
