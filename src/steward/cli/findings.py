"""`steward findings`: what was noticed, and a person's word on it."""

from __future__ import annotations

from typing import Annotated

import typer

from steward.cli.options import Config, Data, Json, Limit, Store, login_name, now_s, open_store
from steward.cli.output import CommandGroup, print_json, print_lines, print_note, print_table

__all__ = ["app"]

app = typer.Typer(
    cls=CommandGroup,
    help="List what was noticed; confirm or dismiss it.",
    rich_markup_mode=None,
)

FindingArgument = Annotated[
    str, typer.Argument(metavar="FINDING", help="Its id, as `steward findings list` shows it.")
]
Note = Annotated[str, typer.Option("--note", help="Why; it is kept in the journal.")]


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


@app.command()
def confirm(
    finding: FindingArgument,
    *,
    note: Note = "",
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Say that a finding is so: its rule is trusted more."""
    with open_store(config, data) as store:
        _say(store, finding, "confirm", note=note, as_json=as_json)


@app.command()
def dismiss(
    finding: FindingArgument,
    *,
    note: Note = "",
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Say that a finding is wrong or not worth knowing: its rule is trusted less."""
    with open_store(config, data) as store:
        _say(store, finding, "dismiss", note=note, as_json=as_json)


def _say(store: Store, finding: str, opinion: str, *, note: str, as_json: bool) -> None:
    from steward.store.opinions import say

    t_s = now_s(store.journal)
    said = say(store.journal, finding, opinion, user=login_name(), t_s=t_s, note=note)
    if as_json:
        print_json(said)
        return
    word = "confirmed" if said.opinion == "confirm" else "dismissed"
    print_lines([f"{said.user} {word} {said.finding} of rule {said.rule}"])
    print_note("it is in the journal; a running steward takes it up in its next turn")
