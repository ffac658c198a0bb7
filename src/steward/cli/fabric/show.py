"""`steward fabric show`: nodes, links and domains of a topology file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steward.cli.fabric.files import File, Form, read_file
from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_note, print_table

if TYPE_CHECKING:
    from steward.model.fabric.topology import FabricTopology

__all__ = ["record", "show"]


def show(file: File, *, form: Form = "", as_json: Json = False) -> None:
    """Show what a topology file says: nodes, switches, links, NVLink domains.

    What is not known is shown as unknown: capacities, far ends, nodes that no switch names.
    """
    topology = read_file(file, form)
    if as_json:
        print_json(record(topology))
        return
    print_summary(topology)


def record(topology: FabricTopology) -> dict[str, Any]:
    """Return the whole topology as JSON values; every cable once."""
    from steward.model.fabric.topology import LINK_KINDS, VERTEX_KINDS

    vertices, links = topology.vertices, topology.links
    nodes = [
        {
            "name": name,
            "kind": VERTEX_KINDS[vertices.kind[at]],
            "tier": int(vertices.tier[at]) if vertices.tier[at] >= 0 else None,
            "domain": topology.domains[vertices.domain[at]] if vertices.domain[at] >= 0 else None,
        }
        for at, name in enumerate(vertices.names)
    ]
    return {
        "origin": topology.origin,
        "nodes": nodes,
        "links": [
            {
                "a": vertices.names[links.source[at]],
                "b": vertices.names[links.target[at]],
                "kind": LINK_KINDS[links.kind[at]],
                "bytes_per_s": float(links.bytes_per_s[at]),
                "rail": int(links.rail[at]) if links.rail[at] >= 0 else None,
                "ends_seen": int(links.ends_seen[at]),
                "up": bool(links.up[at]),
            }
            for at in range(0, len(links), 2)
        ],
        "domains": [
            {"name": name, "members": list(topology.members(at))}
            for at, name in enumerate(topology.domains)
        ],
        "unplaced": list(topology.unplaced),
    }


def print_summary(topology: FabricTopology) -> None:
    """Print tiers, kinds of links, domains, and what is not known."""
    import numpy as np

    from steward.model.fabric.topology import LINK_KINDS, VERTEX_KINDS

    vertices, links = topology.vertices, topology.links
    rows = []
    for tier in sorted(set(vertices.tier.tolist()), key=lambda each: (each < 0, each)):
        for kind in sorted(set(vertices.kind[vertices.tier == tier].tolist())):
            own = np.flatnonzero((vertices.tier == tier) & (vertices.kind == kind))
            some = ", ".join(vertices.names[at] for at in own[:4])
            more = ", …" if len(own) > 4 else ""
            rows.append(
                (
                    str(tier) if tier >= 0 else "unknown",
                    VERTEX_KINDS[kind],
                    str(len(own)),
                    some + more,
                )
            )
    print_table(("Tier", "Kind", "Count", "Such as"), rows, empty="nothing is named")
    wires = []
    for kind in sorted(set(links.kind.tolist())):
        own = np.flatnonzero(links.kind == kind)[::2]
        speeds = sorted({float(x) for x in links.bytes_per_s[own] if not np.isnan(x)})
        said = ", ".join(f"{each * 8 / 1e9:g} Gbit/s" for each in speeds[:4]) or "unknown"
        one = int((links.ends_seen[own] < 2).sum())
        down = int((~links.up[own]).sum())
        wires.append((LINK_KINDS[kind], str(len(own)), said, str(one), str(down)))
    print_table(
        ("Links", "Count", "Capacity", "Known from one end", "Down"), wires, empty="no links"
    )
    if topology.domains:
        sizes = [len(topology.members(at)) for at in range(len(topology.domains))]
        span = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
        print_lines([f"{len(sizes)} NVLink domains of {span} members"])
    if topology.unplaced:
        some = ", ".join(topology.unplaced[:8])
        print_note(f"no switch names {len(topology.unplaced)} nodes: {some}")
