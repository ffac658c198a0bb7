"""`steward fabric explain`: the way between two nodes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from steward.cli.fabric.files import File, Form, read_file
from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_table
from steward.errors import StewardError

__all__ = ["explain"]

Source = Annotated[str, typer.Argument(metavar="FROM", help="A node of the topology.")]
Target = Annotated[str, typer.Argument(metavar="TO", help="Another one.")]


def explain(
    file: File, source: Source, target: Target, *, form: Form = "", as_json: Json = False
) -> None:
    """Explain which links traffic between two nodes uses, and how evenly it is spread.

    Exits 1 if no way between them is known.
    """
    import numpy as np

    from steward.model.fabric.routes import Routes

    topology = read_file(file, form)
    ends = topology.rows([source, target])
    if topology.forwards[ends].any():
        raise StewardError("a way is from a node to a node; one of these is a switch")
    routes = Routes.of(topology)
    use = routes.expected_use(ends[0], ends[1])
    known = bool(routes.paths(ends[0], ends[1], hashes=0).known[0])
    rows: list[dict[str, Any]] = [
        {
            "link": topology.names_of_links[link],
            "share": round(float(use[link]), 4),
            "bytes_per_s": float(topology.links.bytes_per_s[link]),
        }
        for link in np.flatnonzero(use > 0)
    ]
    hops = int(routes.hops[routes.column[ends[1]], ends[0]]) if known else None
    if as_json:
        print_json({"from": source, "to": target, "known": known, "hops": hops, "links": rows})
    elif not known:
        print_lines([f"no way from {source} to {target} is known"])
    else:
        print_lines([f"{source} to {target}: {hops} links, each way as likely"])
        print_table(
            ("Link", "Share of the traffic", "Capacity"),
            [(row["link"], f"{row['share']:.0%}", _gbit(row["bytes_per_s"])) for row in rows],
            empty="they are the same node",
        )
    raise typer.Exit(0 if known else 1)


def _gbit(bytes_per_s: float) -> str:
    known = bytes_per_s == bytes_per_s  # noqa: PLR0124 - NaN is not itself
    return f"{bytes_per_s * 8 / 1e9:g} Gbit/s" if known else "unknown"
