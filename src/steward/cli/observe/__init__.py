"""`steward observe`: record, import, query, judge and watch telemetry; one file per command.

Belongs here: options and how answers are shown. Does not: reading sources or files.
"""

from __future__ import annotations

import typer

from steward.cli.observe.export import export
from steward.cli.observe.record import record

__all__ = ["app"]

app = typer.Typer(
    help="Record telemetry, bring in that of others, ask it questions, see how good it is.",
    no_args_is_help=True,
)
app.command(name="export")(export)
app.command(name="record")(record)
