"""Slurm's `topology.yaml` (25.05 and later): several topologies, each a tree, blocks, or flat."""

from __future__ import annotations

from typing import Any

from steward.errors import StewardError
from steward.model.fabric.builder import TopologyBuilder
from steward.model.fabric.topology import FabricTopology
from steward.model.hostlist import hosts
from steward.observe.fabric.documents import items, mapping, yaml_of
from steward.observe.fabric.slurm_conf import add_blocks
from steward.observe.fabric.tree import SwitchLine, build_tree

__all__ = ["read_slurm_yaml"]


def read_slurm_yaml(text: str, where: str = "") -> FabricTopology:
    """Read all topologies of the file into one: a tree says how, blocks say what shares NVLink."""
    builder = TopologyBuilder(where or "topology.yaml")
    switches: dict[str, SwitchLine] = {}
    blocks: dict[str, tuple[str, ...]] = {}
    for each in items(yaml_of(text, where), "the file", where):
        one = mapping(each, "a topology", where)
        for line in items(
            mapping(one.get("tree"), "tree", where).get("switches"), "switches", where
        ):
            switch = _switch(mapping(line, "a switch", where), where)
            switches.setdefault(switch.name, switch)
        for line in items(mapping(one.get("block"), "block", where).get("blocks"), "blocks", where):
            block = mapping(line, "a block", where)
            blocks.setdefault(_name(block, "block", where), hosts(str(block.get("nodes") or "")))
    build_tree(builder, switches.values(), where=where)
    add_blocks(builder, blocks, where)
    return builder.build()


def _switch(line: Any, where: str) -> SwitchLine:  # noqa: ANN401 - a mapping of a document
    return SwitchLine(
        name=_name(line, "switch", where),
        switches=hosts(str(line.get("children") or "")),
        nodes=hosts(str(line.get("nodes") or "")),
    )


def _name(line: Any, key: str, where: str) -> str:  # noqa: ANN401 - a mapping of a document
    name = line.get(key)
    if name is None:
        raise StewardError(f"a {key} has no name", where=where, hint=f"each begins with `{key}:`")
    return str(name)
