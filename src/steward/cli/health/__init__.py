"""`steward health`: faults of hardware in logs: what happened, why, and what should be done."""

from __future__ import annotations

import typer

from steward.cli.health.checkpoints import checkpoints
from steward.cli.health.diagnose import diagnose
from steward.cli.health.explain import explain
from steward.cli.health.forecast import forecast
from steward.cli.health.report import report
from steward.cli.health.scan import scan
from steward.cli.health.spares import spares
from steward.cli.health.watch import watch

__all__ = ["app"]

app = typer.Typer(
    help="Faults of GPUs and hosts: what happened, what follows from what, what should be done.",
    rich_markup_mode=None,
)
app.command(name="scan")(scan)
app.command(name="report")(report)
app.command(name="explain")(explain)
app.command(name="forecast")(forecast)
app.command(name="spares")(spares)
app.command(name="checkpoints")(checkpoints)
app.command(name="diagnose")(diagnose)
app.command(name="watch")(watch)
