"""`steward decisions`: what was decided and why, and a person's word on it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from steward.cli.options import (
    Config,
    Data,
    DecisionArgument,
    Json,
    Limit,
    login_name,
    now_s,
    open_store,
    read_settings,
)
from steward.cli.output import print_json, print_lines, print_note, print_table, print_warnings
from steward.cli.words import moment

if TYPE_CHECKING:
    from steward.store.choices import ApprovalRequest

__all__ = ["STATES", "app"]

app = typer.Typer(
    help="List and explain decisions; approve, reject or undo them.", rich_markup_mode=None
)

STATES = (
    "advised",
    "waiting",
    "approved",
    "under-way",
    "rejected",
    "held",
    "active",
    "done",
    "failed",
    "undone",
    "expired",
)
PAST = {"approve": "approved", "reject": "rejected", "undo": "asked to undo"}
State = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="STATE",
        help=f"Only those in this state: {', '.join(STATES)}.",
        autocompletion=lambda: list(STATES),
    ),
]
Note = Annotated[str, typer.Option("--note", help="Why; it is kept in the journal.")]


@app.command(name="list")
def list_(
    *,
    state: State = None,
    limit: Limit = 50,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List decisions, newest first."""
    from steward.cli.views.stories import COLUMNS, record, row
    from steward.errors import unknown_name
    from steward.model.decision import DecisionState
    from steward.store.story_search import find_stories

    if state is not None and state not in STATES:
        raise unknown_name("state", state, STATES, where="--state")
    with open_store(config, data) as store:
        states = frozenset({DecisionState(state)} if state else ())
        found = find_stories(store.journal, states=states, limit=limit + 1).stories
        present_s = now_s(store.journal)
    if as_json:
        print_json([record(seq, story) for seq, story in found[:limit]])
        return
    rows = [row(story, present_s) for _, story in found[:limit]]
    print_table(COLUMNS, rows, empty=f"no {state} decisions" if state else "no decisions yet")
    if len(found) > limit:
        print_note(f"only the newest {limit} are shown; --limit shows more")


@app.command()
def explain(
    decision: DecisionArgument,
    *,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Tell a decision's whole story, from the samples behind it to what it was worth."""
    from steward.cli.views.explanation import lines_of, record_of
    from steward.model.identity import DecisionId
    from steward.store.explain import explain as explain_decision

    with open_store(config, data) as store:
        telemetry = store.telemetry()
        found = explain_decision(store.journal, telemetry, DecisionId(decision))
        present_s = now_s(store.journal)
        print_warnings(telemetry.damage())
    if as_json:
        print_json(record_of(found))
    else:
        print_lines(lines_of(found, present_s))


@app.command()
def commands(
    decision: DecisionArgument, *, config: Config = None, data: Data = None, as_json: Json = False
) -> None:
    """Print what a person would type, on the engine here, to do by hand what was decided.

    It looks at what is there now and changes nothing. Exits 1 when it cannot be done (any more).
    """
    from dataclasses import asdict

    from steward.config.by_hand import by_hand
    from steward.model.identity import DecisionId

    with open_store(config, data) as store:
        story = store.journal.story(DecisionId(decision))
        engine, found = by_hand(store.settings, story.decision, time.time())
    if as_json:
        print_json({"engine": engine, **asdict(found)})
    else:
        if found.commands:
            print_lines(found.commands)
        print_note(f"{engine}: {found.text}")
    raise typer.Exit(0 if found.possible else 1)


@app.command()
def approve(
    decision: DecisionArgument,
    *,
    note: Note = "",
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Let a decision be carried out."""
    said = _choose(decision, "approve", note=note, config=config, data=data)
    _print_choice(said, as_json=as_json)


@app.command()
def reject(
    decision: DecisionArgument,
    *,
    note: Note = "",
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Refuse a decision that waits for approval."""
    said = _choose(decision, "reject", note=note, config=config, data=data)
    _print_choice(said, as_json=as_json)


@app.command()
def undo(
    decision: DecisionArgument,
    *,
    note: Note = "",
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Take back a decision that was carried out."""
    said = _choose(decision, "undo", note=note, config=config, data=data)
    _print_choice(said, as_json=as_json)


Tenant = Annotated[str, typer.Option("--tenant", metavar="NAME", help="Whose GPUs.")]
ActionType = Annotated[
    str, typer.Option("--action", metavar="TYPE", help="Which action, such as lend or start.")
]
ForHours = Annotated[
    float, typer.Option("--hours", min=0.01, max=720, help="How long, in real hours.")
]
Gpus = Annotated[int, typer.Option("--gpus", min=1, max=1_000_000, help="How many GPUs in all.")]


@app.command()
def allow(  # noqa: PLR0913 - options of a command
    *,
    tenant: Tenant,
    action: ActionType,
    hours: ForHours = 4.0,
    gpus: Gpus = 32,
    note: Note = "",
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Approve in advance what would otherwise ask each time, for one tenant and action."""
    from steward.store.choices import ApprovalRequest

    asked = ApprovalRequest(tenant=tenant, action=action, hours=hours, gpus=gpus, note=note)
    made = _allow(asked, config=config, data=data)
    if as_json:
        print_json(made)
        return
    print_lines([f"{made['id']}: {made['user']} approved '{action}' for {tenant} for {hours:g} h"])


@app.command()
def approvals(*, config: Config = None, data: Data = None, as_json: Json = False) -> None:
    """List the standing approvals that are in force."""
    from steward.store.choices import standing_approvals

    with open_store(config, data) as store:
        found = standing_approvals(store.journal, now_s(store.journal))
    if as_json:
        print_json(found)
        return
    rows = [
        (each.id, each.tenant, each.action, moment(each.until_s), str(each.gpus), each.user)
        for each in found
    ]
    columns = ("id", "tenant", "action", "until", "GPUs", "by")
    print_table(columns, rows, empty="no standing approvals")


@app.command()
def revoke(
    approval: Annotated[str, typer.Argument(help="The id of a standing approval.")],
    *,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Take back a standing approval."""
    from steward.store.choices import revoke as revoke_approval

    with open_store(config, data) as store:
        made = revoke_approval(store.journal, approval, user=login_name(), t_s=now_s(store.journal))
    if as_json:
        print_json(made)
        return
    print_lines([f"{made.user} revoked {approval}"])


@app.command()
def learned(*, config: Config = None, data: Data = None, as_json: Json = False) -> None:
    """Show what outcomes taught about choosing: each arm, the evidence, the gate, the drifts.

    It is learnt where the estimator `lending-choice` is configured. Exits 1 if there is nothing.
    """
    from steward.cli.views.learned_choices import lines_of, record_of
    from steward.config.assemble import LEARNED
    from steward.learn.estimators.lending_choice import LendingChoice
    from steward.store.learned import LearnedStates

    choice = LendingChoice()
    folder = read_settings(config, data).store.path / LEARNED
    states = LearnedStates(folder, read_only=True)
    why = states.restore(choice) if choice.name in states.names() else "nothing is saved yet"
    if why:
        if as_json:
            print_json({"name": choice.name, "state": "nothing learnt", "why": why})
        print_note(f"{choice.name}: {why}")
        print_note("add it to learn.estimators in the configuration; it is saved every 10 minutes")
        raise typer.Exit(1)
    record = record_of(choice)
    if as_json:
        print_json(record)
    else:
        print_lines(lines_of(choice, record))


def _allow(
    asked: ApprovalRequest, *, config: Path | None, data: Path | None
) -> Mapping[str, object]:
    """Ask the steward that runs here, or write to the journal of one that rests.

    The one that runs knows all tenants, and how fast its clock is.
    """
    from steward.clients.local_service import LocalService
    from steward.store.choices import approve_in_advance, known_tenants

    answer = LocalService(read_settings(config, data).socket_path).post(
        "approvals", body=asdict(asked)
    )
    if answer is not None:
        return answer
    with open_store(config, data) as store:
        asked.check(known_tenants(store.journal) | {*store.settings.tenants})
        t_s = now_s(store.journal)
        return asdict(approve_in_advance(store.journal, asked, user=login_name(), t_s=t_s))


def _choose(
    decision: str,
    choice: Literal["approve", "reject", "undo"],
    *,
    note: str,
    config: Path | None,
    data: Path | None,
) -> Mapping[str, object]:
    """Send a choice to the steward that runs here, or write it to the journal of one that rests."""
    from steward.clients.local_service import LocalService
    from steward.store.choices import record_choice

    service = LocalService(read_settings(config, data).socket_path)
    answer = service.post("decisions", decision, choice, body={"note": note})
    if answer is not None:
        return answer
    with open_store(config, data) as store:
        t_s = now_s(store.journal)
        return asdict(
            record_choice(store.journal, decision, choice, user=login_name(), t_s=t_s, note=note)
        )


def _print_choice(said: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json(said)
        return
    print_lines([f"{said['user']} {PAST[str(said['choice'])]} {said['decision']}"])
    print_note("it is in the journal; a running steward acts on it in its next turn")
