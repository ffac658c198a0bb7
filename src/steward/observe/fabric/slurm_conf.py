"""Slurm's `topology.conf`: switches with what is below them, or blocks of nodes."""

from __future__ import annotations

import math

from steward.errors import StewardError
from steward.model.fabric.builder import TopologyBuilder
from steward.model.fabric.topology import NODE, SWITCH, FabricTopology
from steward.model.hostlist import hosts
from steward.observe.fabric.tree import SwitchLine, build_tree

__all__ = ["add_blocks", "read_slurm_conf"]

_KEYS = {
    "switchname", "switches", "nodes", "linkspeed", "blockname", "blocksizes", "blocklevels",
}  # fmt: skip


def read_slurm_conf(text: str, where: str = "") -> FabricTopology:
    """Read lines of `SwitchName=` (topology/tree) or `BlockName=` (topology/block).

    `LinkSpeed` has no unit that Slurm gives it, so it is not taken for a capacity.
    """
    builder = TopologyBuilder(where or "topology.conf")
    switches, blocks = [], {}
    for number, line in _lines(text):
        fields = _fields(line, f"{where}:{number}" if where else f"line {number}")
        if "switchname" in fields:
            below = tuple(hosts(fields.get("switches", "")))
            nodes = tuple(hosts(fields.get("nodes", "")))
            switches += [
                SwitchLine(name=name, switches=below, nodes=nodes, bytes_per_s=math.nan)
                for name in hosts(fields["switchname"])
            ]
        elif "blockname" in fields:
            blocks[fields["blockname"]] = hosts(fields.get("nodes", ""))
    build_tree(builder, switches, where=where)
    add_blocks(builder, blocks, where)
    return builder.build()


def add_blocks(builder: TopologyBuilder, blocks: dict[str, tuple[str, ...]], where: str) -> None:
    """Take each block for an NVLink domain under a switch of its own, as topology/block means it.

    How blocks are wired to one another such a file does not say.
    """
    taken: dict[str, str] = {}
    for block, nodes in blocks.items():
        builder.vertex(f"block:{block}", SWITCH)
        for node in nodes:
            if node in taken:
                raise StewardError(f"{node} is in block {taken[node]} and in {block}", where=where)
            taken[node] = block
            builder.vertex(node, NODE, domain=block)
            builder.cable(node, f"block:{block}", told_by=[f"block:{block}"])


def _lines(text: str) -> list[tuple[int, str]]:
    """Return lines without comments, with those that go on put together."""
    found: list[tuple[int, str]] = []
    begun, number = "", 0
    for at, line in enumerate(text.splitlines(), 1):
        bare = line.split("#", 1)[0].rstrip()
        number = number or at
        if bare.endswith("\\"):
            begun += bare[:-1] + " "
            continue
        whole = (begun + bare).strip()
        if whole:
            found.append((number, whole))
        begun, number = "", 0
    if begun.strip():
        found.append((number, begun.strip()))
    return found


def _fields(line: str, where: str) -> dict[str, str]:
    fields = {}
    for word in line.split():
        key, equals, value = word.partition("=")
        if not equals or key.lower() not in _KEYS:
            raise StewardError(
                f"'{word[:60]}' is not understood",
                where=where,
                hint="lines are SwitchName= with Switches= or Nodes=, or BlockName= with Nodes=",
            )
        fields[key.lower()] = value
    return fields
