"""`steward rules`: check, test, run, explain and share rules; one file per command.

Belongs here: options and output. Does not: reading rules or matching them.
"""

from __future__ import annotations

import typer

from steward.cli.rules.check import check
from steward.cli.rules.examples import examine
from steward.cli.rules.explain import explain
from steward.cli.rules.listing import list_rules
from steward.cli.rules.new import new
from steward.cli.rules.packages import install, pack, packages, remove
from steward.cli.rules.run import run
from steward.cli.rules.stats import stats
from steward.cli.rules.suggest import suggest

__all__ = ["app"]

app = typer.Typer(
    help="Check rules, test them on their examples, run them over logs and telemetry, share them.",
    no_args_is_help=True,
)
app.command(name="run")(run)
app.command(name="explain")(explain)
app.command(name="list")(list_rules)
app.command(name="new")(new)
app.command(name="suggest")(suggest)
app.command(name="check")(check)
app.command(name="test")(examine)
app.command(name="stats")(stats)
app.command(name="pack")(pack)
app.command(name="install")(install)
app.command(name="packages")(packages)
app.command(name="remove")(remove)
