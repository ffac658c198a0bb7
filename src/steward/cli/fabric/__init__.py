"""`steward fabric`: what is wired to what, where it is congested, and who bears a cap."""

from __future__ import annotations

import typer

from steward.cli.fabric.explain import explain
from steward.cli.fabric.place import place
from steward.cli.fabric.scan import scan
from steward.cli.fabric.show import show
from steward.cli.fabric.simulate import simulate
from steward.cli.fabric.train import train

__all__ = ["app"]

app = typer.Typer(
    help="Networks: what is wired to what, congestion, and caps for those who bear them.",
    rich_markup_mode=None,
)
app.command(name="scan")(scan)
app.command(name="show")(show)
app.command(name="explain")(explain)
app.command(name="simulate")(simulate)
app.command(name="place")(place)
app.command(name="train")(train)
