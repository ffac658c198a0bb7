"""What mining commands read: a file of baskets, or raw telemetry, and labels of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.learn.progress import byte_progress
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.learn.patterns.baskets import Baskets
    from steward.learn.patterns.itemsets import Item

__all__ = ["Limit", "Paths", "Source", "Top", "Window", "item_record", "joined", "read_source"]

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...",
        help="A file of `steward learn baskets --out`, or telemetry as that command takes it.",
    ),
]
Window = Annotated[
    float, typer.Option("--window", metavar="S", min=0.01, help="Seconds, of raw telemetry.")
]
Top = Annotated[int, typer.Option("--top", min=1, help="Rows of each table.")]
Limit = Annotated[
    int,
    typer.Option("--limit", min=1, help="Entries of each list of --json; totals stand beside."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Baskets, and what is known of how they were made: groups and cuts."""

    baskets: Baskets
    about: Mapping[str, Any]

    def as_record(self) -> dict[str, Any]:
        """Return what a suggested rule needs to know of the groups and their levels."""
        return {
            "windows": len(self.baskets),
            "window_s": self.baskets.window_s,
            "runs": len(self.baskets.runs),
            "inputs": list(self.about.get("inputs", ())),
            "statistics": list(self.about.get("statistics", ())),
            "groups": [
                {key: each[key] for key in ("group", "match", "combine")}
                for each in self.about.get("groups", ())
            ],
            "cuts": [
                {key: each[key] for key in ("scope", "group", "levels", "bounds")}
                for each in self.about.get("cuts", ())
            ],
        }


def read_source(paths: Sequence[str], window_s: float) -> Source:
    """Read baskets, or make them."""
    from steward.learn.patterns.basket_files import is_baskets_file, read_about, read_baskets
    from steward.learn.patterns.from_telemetry import BasketRequest, make_baskets

    if len(paths) == 1 and is_baskets_file(Path(paths[0])):
        source = Source(baskets=read_baskets(Path(paths[0])), about=read_about(Path(paths[0])))
    else:
        with byte_progress("reading") as progress:
            request = BasketRequest(paths=tuple(paths), window_s=window_s)
            made = make_baskets(request, progress=progress)
        source = Source(baskets=made.baskets, about=made.report)
    if not len(source.baskets) or not source.baskets.groups:
        raise StewardError(
            "there is no window with a known metric",
            where=", ".join(paths)[:200],
            hint="`steward learn quality PATH` says what the files hold",
        )
    return source


def item_record(item: Item) -> dict[str, str]:
    """Return an item as JSON has it."""
    return {"group": item.group, "level": item.level}


def joined(items: Sequence[Item], by: str = ", ") -> str:
    """Return items for a person."""
    return by.join(map(str, items))
