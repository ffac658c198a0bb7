"""`steward memory`: which pages move between tiers, simulated and of real processes."""

from __future__ import annotations

import typer

from steward.cli.memory.simulate import explain, policies, simulate
from steward.cli.memory.watch import watch

__all__ = ["app"]

app = typer.Typer(
    help="Pages in tiers of memory: a simulator of policies behind a shared link, and a watch of "
    "real processes that may move their memory to swap or another node.",
    rich_markup_mode=None,
)
app.command(name="simulate")(simulate)
app.command(name="policies")(policies)
app.command(name="explain")(explain)
app.command(name="watch")(watch)
