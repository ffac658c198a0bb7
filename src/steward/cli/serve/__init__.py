"""`steward serve`: deadlines and queues in front of model servers, real and simulated."""

from __future__ import annotations

import typer

from steward.cli.serve import keys
from steward.cli.serve.demo import demo
from steward.cli.serve.gateway import gateway
from steward.cli.serve.plan import plan
from steward.cli.serve.replay import replay
from steward.cli.serve.score import score
from steward.cli.serve.simulate import policies, simulate
from steward.cli.serve.stand_in import stand_in
from steward.cli.serve.status import status

__all__ = ["app"]

app = typer.Typer(
    help="Deadlines, queues and scaling for model servers: a gateway in front of them, plans of "
    "how many are needed, and a simulator that runs the same decisions.",
    rich_markup_mode=None,
)
app.command(name="gateway")(gateway)
app.command(name="status")(status)
app.add_typer(keys.app, name="key")
app.command(name="plan")(plan)
app.command(name="simulate")(simulate)
app.command(name="policies")(policies)
app.command(name="replay")(replay)
app.command(name="stand-in")(stand_in)
app.command(name="score")(score)
app.command(name="demo")(demo)
