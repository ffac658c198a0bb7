"""Trees of switches, as schedulers are told of them: each names its switches and its nodes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from steward.errors import StewardError
from steward.model.fabric.builder import TopologyBuilder
from steward.model.fabric.topology import NODE, SWITCH

__all__ = ["SwitchLine", "build_tree"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchLine:
    """What one switch is said to have below it."""

    name: str
    switches: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    bytes_per_s: float = math.nan


def build_tree(builder: TopologyBuilder, lines: Iterable[SwitchLine], *, where: str = "") -> None:
    """Wire the tree; raise where switches are in a circle, or one thing is below two switches."""
    below = _checked(lines, where)
    for line in below.values():
        builder.vertex(line.name, SWITCH)
    for line in below.values():
        for node in line.nodes:
            if node in below:
                raise StewardError(f"{node} is a node and a switch", where=where)
            builder.vertex(node, NODE)
            builder.cable(node, line.name, bytes_per_s=line.bytes_per_s, told_by=[line.name])
        for child in line.switches:  # one that nobody describes is known from above only
            known = [line.name, child] if child in below else [line.name]
            builder.vertex(child, SWITCH)
            builder.cable(child, line.name, bytes_per_s=line.bytes_per_s, told_by=known)


def _checked(lines: Iterable[SwitchLine], where: str) -> Mapping[str, SwitchLine]:
    """Return the switches by name, if they are a tree."""
    below: dict[str, SwitchLine] = {}
    for line in lines:
        if line.name in below:
            raise StewardError(f"switch {line.name} is there twice", where=where)
        below[line.name] = line
    _no_circle(below, where)
    above: dict[str, str] = {}
    for line in below.values():
        for child in (*line.switches, *line.nodes):
            if child in above:
                raise StewardError(
                    f"{child} is below {above[child]} and below {line.name}",
                    where=where,
                    hint="in a tree each switch and node has one place",
                )
            above[child] = line.name
    return below


def _no_circle(below: Mapping[str, SwitchLine], where: str) -> None:
    """Raise with the circle if a switch is below itself."""
    done: set[str] = set()
    for start in below:
        way: list[str] = []
        waiting = [(start, False)]
        while waiting:
            name, leaving = waiting.pop()
            if leaving:
                done.add(way.pop())
            elif name in way:
                circle = " > ".join([*way[way.index(name) :], name])
                raise StewardError(f"switches are in a circle: {circle}", where=where)
            elif name not in done and name in below:
                way.append(name)
                waiting.append((name, True))
                waiting += [(child, False) for child in below[name].switches]
