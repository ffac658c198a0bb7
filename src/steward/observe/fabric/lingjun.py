"""The topology of Alibaba's Lingjun data set of 2023: hosts with their three layers of switches."""

from __future__ import annotations

import csv
import io
import itertools

from steward.errors import StewardError
from steward.model.fabric.builder import TopologyBuilder
from steward.model.fabric.topology import ETHERNET, NODE, SWITCH, FabricTopology

__all__ = ["read_lingjun"]

_LAYERS = ("asw", "psw", "dsw")


def read_lingjun(text: str, where: str = "") -> FabricTopology:
    """Read a table of host, asw, psw and dsw; a host without an access switch is unplaced."""
    rows = csv.DictReader(io.StringIO(text))
    missing = {"host", *_LAYERS} - set(rows.fieldnames or ())
    if missing:
        raise StewardError(f"columns are missing: {', '.join(sorted(missing))}", where=where)
    builder = TopologyBuilder(where or "lingjun")
    for row in rows:
        host = f"host{row['host']}"
        builder.vertex(host, NODE)
        way = [(row[layer] or "").strip() for layer in _LAYERS]
        if not way[0]:
            builder.unplaced([host])
            continue
        names = [host, *(each for each in way if each)]
        for tier, name in enumerate(names[1:], 1):
            builder.vertex(name, SWITCH, tier=tier)
        for lower, upper in itertools.pairwise(names):
            builder.cable(
                lower,
                upper,
                kind=ETHERNET,
                ports=(f"to {upper}", f"to {lower}"),
                told_by=[lower, upper],
            )
    return builder.build()
