"""`steward report`: what all of it was worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steward.cli.options import Config, Data, Json, now_s, open_store
from steward.cli.output import print_json, print_lines, print_table, waiting

__all__ = ["report"]

Html = Annotated[
    Path | None,
    typer.Option(
        "--html", metavar="FILE", help="Also write the report as a page that stands by itself."
    ),
]


def report(
    *, html: Html = None, config: Config = None, data: Data = None, as_json: Json = False
) -> None:
    """Say what was saved, with its range, what that rests on, and what became of each decision."""
    from steward.cli.views.savings import (
        KIND_COLUMNS,
        SAVINGS_COLUMNS,
        account_of,
        kind_rows,
        lines_of,
        record_of,
        rows_of,
    )
    from steward.cli.views.savings_page import write_page

    with open_store(config, data) as store, waiting("adding up"):
        account = account_of(store.journal, store.settings, now_s(store.journal))
    if html is not None:
        write_page(account, html)
    if as_json:
        print_json({**record_of(account), "html": str(html) if html else None})
        return
    print_table(SAVINGS_COLUMNS, rows_of(account), empty="nothing was saved yet")
    if account.kinds:
        print_lines([""])
        print_table(KIND_COLUMNS, kind_rows(account), empty="")
    print_lines(lines_of(account))
    if html is not None:
        print_lines(["", f"the page is in {html}"])
