"""`steward findings`: what was noticed, and a person's word on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.options import (
    Config,
    Data,
    Json,
    Limit,
    Store,
    login_name,
    now_s,
    open_store,
    read_settings,
)
from steward.cli.output import print_json, print_lines, print_note, print_table

if TYPE_CHECKING:
    from steward.model.finding import Finding

__all__ = ["app"]

_PAGE = 200

app = typer.Typer(
    help="List, show and explain what was noticed; confirm or dismiss it.",
    rich_markup_mode=None,
)

FindingArgument = Annotated[
    str, typer.Argument(metavar="FINDING", help="Its id, as `steward findings list` shows it.")
]
Note = Annotated[str, typer.Option("--note", help="Why; it is kept in the journal.")]


OnlySeverity = Annotated[
    str | None,
    typer.Option("--severity", metavar="NAME", help="Only these: fault, waste or note."),
]
OnlyRule = Annotated[
    str | None, typer.Option("--rule", metavar="ID", help="Only findings of this rule.")
]


@app.command(name="list")
def list_(
    *,
    severity: OnlySeverity = None,
    rule: OnlyRule = None,
    limit: Limit = 50,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List findings, newest first."""
    from steward.cli.views.stories import FINDING_COLUMNS, finding_row
    from steward.errors import unknown_name
    from steward.model.finding import Severity

    names = [each.value for each in Severity]
    if severity is not None and severity not in names:
        raise unknown_name("severity", severity, names, where="--severity")
    with open_store(config, data) as store:
        wanted = (
            each
            for each in _newest(store)
            if severity in (None, each.severity.value) and rule in (None, each.rule)
        )
        found = list(islice(wanted, limit + 1))
        present_s = now_s(store.journal)
    if as_json:
        print_json(found[:limit])
        return
    rows = [finding_row(finding, present_s) for finding in found[:limit]]
    empty = "no findings yet" if severity is rule is None else "no such findings"
    print_table(FINDING_COLUMNS, rows, empty=empty)
    if len(found) > limit:
        print_note(f"only the newest {limit} are shown; --limit shows more")


def _newest(store: Store) -> Iterator[Finding]:
    """Give all findings, newest first, a page at a time."""
    from steward.model.finding import Finding

    before: int | None = None
    while entries := store.journal.read(
        kinds=("finding",), newest_first=True, limit=_PAGE, before=before
    ):
        yield from (each.value for each in entries if isinstance(each.value, Finding))
        before = entries[-1].seq


@app.command()
def show(
    finding: FindingArgument,
    *,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show a finding with its evidence, its lines, and what came of it."""
    from steward.cli.views.finding import finding_lines, finding_record
    from steward.model.identity import FindingId
    from steward.store.explain import story_of_finding

    with open_store(config, data) as store:
        story = story_of_finding(store.journal, FindingId(finding))
        present_s = now_s(store.journal)
    if as_json:
        print_json(finding_record(story))
    else:
        print_lines(finding_lines(story, present_s))


@app.command()
def explain(
    finding: FindingArgument,
    *,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show a finding, and what its rule looks for, what that means, and what to do about it."""
    from steward.cli.views.finding import finding_lines, finding_record, meaning_lines
    from steward.config.rulebook import read_standings
    from steward.model.identity import FindingId
    from steward.store.explain import story_of_finding

    with open_store(config, data) as store:
        story = story_of_finding(store.journal, FindingId(finding))
        present_s = now_s(store.journal)
    settings = read_settings(config, data)
    standings = read_standings(settings.rules, settings.store.path)
    rule = next((each.rule for each in standings if each.id == story.finding.rule), None)
    if as_json:
        print_json(finding_record(story, rule))
        return
    print_lines(finding_lines(story, present_s))
    print_lines(meaning_lines(rule, story.finding.rule))


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
    from steward.store.opinions import record_opinion

    service = LocalService(read_settings(config, data).socket_path)
    answer = service.post("findings", finding, opinion, body={"note": note})
    if answer is not None:
        return answer
    with open_store(config, data) as store:
        t_s = now_s(store.journal)
        return asdict(
            record_opinion(store.journal, finding, opinion, user=login_name(), t_s=t_s, note=note)
        )


def _print_opinion(given: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json(given)
        return
    word = "confirmed" if given["opinion"] == "confirm" else "dismissed"
    print_lines([f"{given['user']} {word} {given['finding']} of rule {given['rule']}"])
    print_note("it is in the journal; a running steward acts on it in its next turn")
