"""What `ibnetdiscover` prints: switches and channel adapters, their ports and far ends."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from steward.errors import StewardError
from steward.model.fabric.builder import TopologyBuilder
from steward.model.fabric.topology import INFINIBAND, NODE, SWITCH, FabricTopology

__all__ = ["read_ibnetdiscover"]

_HEAD = re.compile(r'^(Switch|Ca|Rt)\s+\d+\s+"([^"]+)"\s*#\s*"([^"]*)"')
_PORT = re.compile(r'^\[(\d+)\](?:\[ext \d+\])?(?:\([0-9a-fA-F]+\))?\s+"([^"]+)"\[(\d+)\]')
_SPEED = re.compile(r"\b(\d+)x(SDR|DDR|QDR|FDR10|FDR|EDR|HDR|NDR|XDR)\b")
_LANE_GBIT = {
    "SDR": 2.0, "DDR": 4.0, "QDR": 8.0, "FDR10": 10.0, "FDR": 13.64, "EDR": 25.0, "HDR": 50.0,
    "NDR": 100.0, "XDR": 200.0,
}  # fmt: skip  # data of one lane
_DEVICE = re.compile(r"(\d+)$")


@dataclass(frozen=True, slots=True)
class _Side:
    name: str
    kind: int
    rail: int  # of an adapter that is told apart by its number, -1 otherwise


def read_ibnetdiscover(text: str, where: str = "") -> FabricTopology:
    """Read it. Adapters of one host are one node; the number of their device is the rail.

    A far end that has no part of its own is known from one end only, under its identity.
    """
    sides = _sides(text)
    if not sides:
        raise StewardError("no switch or adapter is described", where=where)
    builder = TopologyBuilder(where or "ibnetdiscover")
    for side in sides.values():
        builder.vertex(side.name, side.kind)
    here = ""
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head:
            here = head[2]
        port = _PORT.match(line)
        if port and here:
            _cable(builder, sides, here, port, line)
        if not line.strip():
            here = ""
    return builder.build()


def _cable(
    builder: TopologyBuilder, sides: dict[str, _Side], here: str, port: re.Match[str], line: str
) -> None:
    """Note one line of a port. Ports are told apart by the identity of their adapter."""
    near = sides[here]
    far = sides.get(port[2]) or _Side(port[2], -1, -1)
    speed = _SPEED.search(line[port.end() :])
    builder.cable(
        near.name,
        far.name,
        kind=INFINIBAND,
        bytes_per_s=int(speed[1]) * _LANE_GBIT[speed[2]] * 1e9 / 8 if speed else math.nan,
        rail=max(near.rail, far.rail),
        ports=(f"{here}/{port[1]}", f"{port[2]}/{port[3]}"),
        told_by=[near.name],
    )


def _sides(text: str) -> dict[str, _Side]:
    found: dict[str, _Side] = {}
    used: set[str] = set()
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head is None:
            continue
        words = head[3].split()
        if head[1] == "Ca":
            device = _DEVICE.search(words[-1]) if len(words) > 1 else None
            name = words[0] if words else head[2]
            found[head[2]] = _Side(name, NODE, int(device[1]) if device else -1)
        else:
            name = head[3] if head[3] and head[3] not in used else head[2]
            used.add(name)  # names of switches are free text, and not always their own
            found[head[2]] = _Side(name, SWITCH, -1)
    return found
