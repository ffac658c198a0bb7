"""`steward lab`: replay traces under policies, compare them, and say why jobs waited."""

from __future__ import annotations

import typer

from steward.cli.lab.commands import compare, explain, policies, replay
from steward.cli.lab.generate import generate
from steward.cli.lab.sweep import sweep

__all__ = ["app"]

app = typer.Typer(
    help="Replay recorded workloads under scheduling policies, compare and explain them.",
    rich_markup_mode=None,
)
app.command(name="compare")(compare)
app.command(name="replay")(replay)
app.command(name="sweep")(sweep)
app.command(name="explain")(explain)
app.command(name="generate")(generate)
app.command(name="policies")(policies)
