"""What `nvidia-smi topo -m` prints: how GPUs and NICs of one machine reach one another."""

from __future__ import annotations

import math
import re

from steward.errors import StewardError
from steward.model.fabric.builder import TopologyBuilder
from steward.model.fabric.topology import GPU, NIC, NVLINK, PCIE, FabricTopology

__all__ = ["read_nvidia_topo"]

NVLINK_BYTES_PER_S = 25e9  # of one NVLink, in one direction: generations 2 to 4 (V100 to H100)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_DEVICE = re.compile(r"^(GPU|NIC|mlx\d+_)\d+$")
_LINK = re.compile(r"^(NV\d+|PIX|PXB|PHB|NODE|SYS|X|C2C)$")
_LEGEND = re.compile(r"^\s*(NIC\d+):\s*(\S+)")


def read_nvidia_topo(text: str, where: str = "") -> FabricTopology:
    """Read the matrix. `NV18` is 18 NVLinks; PIX to SYS are ways over PCIe and the processors.

    Ways over PCIe are drawn where devices share a switch or bridge (PIX, PXB); what only meets in
    a processor (PHB, NODE, SYS) has no cable of its own.
    """
    lines = [_COLOUR.sub("", line) for line in text.splitlines()]
    names = _head(lines, where)
    alias = {m[1]: m[2] for line in lines if (m := _LEGEND.match(line))}
    cells = {
        words[0]: words[1:]
        for line in lines
        if (words := line.split()) and words[0] in names and len(words) > 1
    }
    builder = TopologyBuilder(where or "nvidia-smi topo -m")
    meshed = _meshed(names, cells)
    for name in names:
        kind = GPU if name.startswith("GPU") else NIC
        builder.vertex(alias.get(name, name), kind, domain="nvlink" if name in meshed else "")
    for at, name in enumerate(names):
        row = [each for each in cells.get(name, []) if _LINK.match(each)]
        for other, link in zip(names[:at], row[:at], strict=False):
            _cable(builder, alias.get(name, name), alias.get(other, other), link)
        if len(row) < len(names):
            raise StewardError(f"the line of {name} is cut off", where=where)
    return builder.build()


def _head(lines: list[str], where: str) -> list[str]:
    for line in lines:
        words = [word for word in line.split() if _DEVICE.match(word)]
        if words and line.split()[0] == words[0] and " X " not in f" {' '.join(line.split())} ":
            return words
    raise StewardError("there is no line that names the GPUs", where=where)


def _meshed(names: list[str], cells: dict[str, list[str]]) -> set[str]:
    """Return GPUs with NVLink to any other."""
    return {name for name in names if any(each.startswith("NV") for each in cells.get(name, []))}


def _cable(builder: TopologyBuilder, a: str, b: str, link: str) -> None:
    if link.startswith("NV"):
        speed = int(link[2:]) * NVLINK_BYTES_PER_S
        builder.cable(a, b, kind=NVLINK, bytes_per_s=speed)
    elif link in ("PIX", "PXB"):
        builder.cable(a, b, kind=PCIE, bytes_per_s=math.nan)
