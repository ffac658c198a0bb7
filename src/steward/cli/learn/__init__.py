"""`steward learn`: what recorded telemetry holds: patterns, kinds of work, changes, anomalies."""

from __future__ import annotations

import typer

from steward.cli.learn.changes import anomalies, changes

__all__ = ["app"]

app = typer.Typer(
    help="Patterns, sequences, contrasts, kinds of work, changes and anomalies in telemetry.",
    rich_markup_mode=None,
)
app.command(name="changes")(changes)
app.command(name="anomalies")(anomalies)
