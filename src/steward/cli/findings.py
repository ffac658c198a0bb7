"""`steward findings`: what was noticed, and a person's word on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from steward.cli.options import (
    Config,
    Data,
    Json,
    Limit,
    login_name,
    now_s,
    open_store,
    read_settings,
)
from steward.cli.output import print_json, print_lines, print_note, print_table

__all__ = ["app"]

app = typer.Typer(
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
    given = _give_opinion(finding, "confirm", note=note, config=config, data=data)
    _print_opinion(given, as_json=as_json)


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
    given = _give_opinion(finding, "dismiss", note=note, config=config, data=data)
    _print_opinion(given, as_json=as_json)


def _give_opinion(
    finding: str, opinion: str, *, note: str, config: Path | None, data: Path | None
) -> Mapping[str, object]:
    """Send an opinion to the steward that runs here, or write it to the journal if none runs."""
    from steward.clients.local_service import LocalService
    from steward.store.opinions import say

    service = LocalService(read_settings(config, data).socket_path)
    answer = service.post("findings", finding, opinion, body={"note": note})
    if answer is not None:
        return answer
    with open_store(config, data) as store:
        t_s = now_s(store.journal)
        return asdict(say(store.journal, finding, opinion, user=login_name(), t_s=t_s, note=note))


def _print_opinion(given: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json(given)
        return
    word = "confirmed" if given["opinion"] == "confirm" else "dismissed"
    print_lines([f"{given['user']} {word} {given['finding']} of rule {given['rule']}"])
    print_note("it is in the journal; a running steward acts on it in its next turn")
