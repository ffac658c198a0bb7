"""`steward serve`: deadlines and queues in front of model servers, real and simulated."""

from __future__ import annotations

import typer

from steward.cli.serve import keys
from steward.cli.serve.demo import demo
from steward.cli.serve.gateway import gateway
from steward.cli.serve.simulate import policies, simulate
from steward.cli.serve.stand_in import stand_in

__all__ = ["app"]

app = typer.Typer(
    help="Deadlines and queues for model servers: a gateway in front of them, and a simulator.",
    rich_markup_mode=None,
)
app.command(name="gateway")(gateway)
app.command(name="simulate")(simulate)
app.command(name="policies")(policies)
app.command(name="stand-in")(stand_in)
app.command(name="demo")(demo)
app.add_typer(keys.app, name="key")
