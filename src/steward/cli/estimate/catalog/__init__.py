"""`steward estimate catalog`: sites, queues, accelerators, limits and prices."""

from __future__ import annotations

import typer

from steward.cli.estimate.catalog.checking import check
from steward.cli.estimate.catalog.importing import import_
from steward.cli.estimate.catalog.listing import list_
from steward.cli.estimate.catalog.packages import install, pack, packages, remove, verify
from steward.cli.estimate.catalog.show import show

__all__ = ["app"]

app = typer.Typer(
    help="Sites where jobs can run: queues, limits, charging rules, prices, carbon.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("list")(list_)
app.command("show")(show)
app.command("import")(import_)
app.command("check")(check)
app.command("pack")(pack)
app.command("verify")(verify)
app.command("install")(install)
app.command("packages")(packages)
app.command("remove")(remove)
