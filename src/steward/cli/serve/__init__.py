"""`steward serve`: deadlines and queues in front of model servers, simulated so far."""

from __future__ import annotations

import typer

from steward.cli.serve.plan import plan
from steward.cli.serve.replay import replay
from steward.cli.serve.simulate import policies, simulate

__all__ = ["app"]

app = typer.Typer(
    help="Deadlines and queues for model servers: simulate them under dispatching policies.",
    rich_markup_mode=None,
)
app.command(name="simulate")(simulate)
app.command(name="plan")(plan)
app.command(name="replay")(replay)
app.command(name="policies")(policies)
