"""`steward learn`: what recorded telemetry holds: patterns, kinds of work, changes, anomalies."""

from __future__ import annotations

import typer

from steward.cli.learn.baskets import baskets
from steward.cli.learn.changes import anomalies, changes
from steward.cli.learn.contrast import contrast
from steward.cli.learn.itemsets import itemsets
from steward.cli.learn.kinds import kinds
from steward.cli.learn.quality import quality
from steward.cli.learn.report import report
from steward.cli.learn.sequences import sequences

__all__ = ["app"]

app = typer.Typer(
    help="Patterns, sequences, contrasts, kinds of work, changes and anomalies in telemetry.",
    rich_markup_mode=None,
)
app.command(name="quality")(quality)
app.command(name="baskets")(baskets)
app.command(name="itemsets")(itemsets)
app.command(name="sequences")(sequences)
app.command(name="contrast")(contrast)
app.command(name="kinds")(kinds)
app.command(name="report")(report)
app.command(name="changes")(changes)
app.command(name="anomalies")(anomalies)
