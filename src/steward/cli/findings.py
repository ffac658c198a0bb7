"""`steward findings`: what was noticed."""

from __future__ import annotations

import typer

from steward.cli.options import Config, Data, Json, Limit, now_s, open_store
from steward.cli.output import print_json, print_note, print_table

__all__ = ["app"]

app = typer.Typer(help="List what was noticed.", rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Keep `list` a command of its own, also while it is the only one."""


@app.command(name="list")
def list_(
    *, limit: Limit = 50, config: Config = None, data: Data = None, as_json: Json = False
) -> None:
    """List findings, newest first."""
    from steward.cli.views.stories import FINDING_COLUMNS, finding_row
    from steward.model.finding import Finding

    with open_store(config, data) as store:
        entries = store.journal.read(kinds=("finding",), newest_first=True, limit=limit + 1)
        present_s = now_s(store.journal)
    found = [entry.value for entry in entries if isinstance(entry.value, Finding)]
    if as_json:
        print_json(found[:limit])
        return
    rows = [finding_row(finding, present_s) for finding in found[:limit]]
    print_table(FINDING_COLUMNS, rows, empty="no findings yet")
    if len(found) > limit:
        print_note(f"only the newest {limit} are shown; --limit shows more")
