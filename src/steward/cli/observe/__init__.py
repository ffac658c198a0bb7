"""`steward observe`: record, import, query, judge and watch telemetry; one file per command.

Belongs here: options and how answers are shown. Does not: reading sources or files.
"""

from __future__ import annotations

import typer

from steward.cli.observe.agent import agent
from steward.cli.observe.export import export
from steward.cli.observe.importing import import_files
from steward.cli.observe.quality import quality
from steward.cli.observe.query import query, tail
from steward.cli.observe.record import record
from steward.cli.observe.top import top

__all__ = ["app"]

app = typer.Typer(
    help="Record telemetry, bring in that of others, ask it questions, see how good it is.",
    no_args_is_help=True,
)
app.command(name="record")(record)
app.command(name="import")(import_files)
app.command(name="query")(query)
app.command(name="tail")(tail)
app.command(name="quality")(quality)
app.command(name="export")(export)
app.command(name="agent")(agent)
app.command(name="top")(top)
