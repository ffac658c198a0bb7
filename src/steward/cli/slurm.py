"""`steward slurm`: what a Slurm site needs, what this account may do, what would be run."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.options import (
    Config,
    Data,
    DecisionArgument,
    Json,
    open_store,
    read_settings,
)
from steward.cli.output import print_json, print_lines, print_note
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.act.actuators.slurm import Slurm
    from steward.clients.slurm.site_setup import CalledBackBy, SiteSetup
    from steward.config import Settings

__all__ = ["app"]

app = typer.Typer(
    help="Prepare a Slurm for steward, and show the commands of decisions.", rich_markup_mode=None
)

Version = Annotated[
    str,
    typer.Option("--slurm-version", metavar="V", help="As 23.11 [that of the Slurm here]."),
]
Nodes = Annotated[str, typer.Option("--nodes", metavar="NODES", help="The GPU nodes, as n[1-8].")]
Account = Annotated[
    str, typer.Option("--account", metavar="USER", help="The account that steward runs as.")
]
Grace = Annotated[
    int,
    typer.Option(
        "--grace", metavar="S", min=1, max=86_400, help="Seconds to save before the kill."
    ),
]
CalledBack = Annotated[
    str,
    typer.Option(
        "--called-back-by",
        metavar="WHO",
        help="Who stops jobs of the pool for a guaranteed one: `slurm` or `steward`.",
    ),
]


@app.command()
def setup(  # noqa: PLR0913 - options of a command
    *,
    slurm_version: Version = "",
    nodes: Nodes = "ALL",
    account: Account = "steward",
    grace: Grace = 60,
    called_back_by: CalledBack = "slurm",
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Print the configuration that a Slurm needs for steward. It changes nothing.

    Lines that the controller here runs with already are marked. Partitions for guaranteed and for
    preemptible jobs, warnings that reach scripts, accounting, and an account with the rights.
    """
    from steward.clients.slurm.site_setup import site_setup

    version, current = slurm_version, None
    if not version:
        version, current = _of_this_slurm(read_settings(config, None))
    made = site_setup(
        version,
        nodes=nodes,
        account=account,
        grace_s=grace,
        called_back_by=_who(called_back_by),
        current=current,
    )
    if as_json:
        print_json(_as_record(made))
        return
    print_lines(_lines(made))
    print_note("nothing was changed: a person puts these into slurm.conf, then restarts slurmctld")


@app.command()
def commands(
    decision: DecisionArgument, *, config: Config = None, data: Data = None, as_json: Json = False
) -> None:
    """Print the commands that a decision needs now, as a person would type them. It runs none.

    Exits 1 when Slurm would not let it be carried out.
    """
    from steward.model.identity import DecisionId

    with open_store(config, data) as store:
        story = store.journal.story(DecisionId(decision))
        plan = _actuator(store.settings).commands(story.decision, time.time())
    if as_json:
        print_json({"result": plan.result, "text": plan.text, "commands": plan.commands})
    else:
        print_lines([shlex.join(each) for each in plan.commands])
        print_note(plan.text)
    raise typer.Exit(1 if plan.result == "failed" else 0)


def _who(text: str) -> CalledBackBy:
    match text:
        case "slurm" | "steward":
            return text
    problem = f"--called-back-by is {text!r}, not slurm or steward"
    raise StewardError(problem, hint="`slurm` also calls back while steward is down")


def _actuator(settings: Settings) -> Slurm:
    from steward.act.actuators.slurm import Slurm
    from steward.config.plugs import own_options

    options: dict[str, Any] = own_options("actuator", "slurm", settings.plugs.get("slurm", {}))
    return Slurm(**options)


def _of_this_slurm(settings: Settings) -> tuple[str, dict[str, str] | None]:
    """Return the version here, and what the controller runs with, if it answers."""
    from steward.clients.slurm.control import SlurmControl

    options = settings.plugs.get("slurm", {})
    slurm = SlurmControl(folder=str(options.get("folder", "")), conf=str(options.get("conf", "")))
    try:
        version = slurm.version()
    except StewardError as fault:
        version = slurm.installed_version()
        if version:  # a site that is being set up has no cluster yet
            print_note(f"no cluster to compare with; {version} is installed here: {fault.problem}")
            return version, None
        hint = "name a version: `steward slurm setup --slurm-version 23.11`"
        raise StewardError(fault.problem, hint=hint) from fault
    try:
        return version, dict(slurm.configuration())
    except StewardError as fault:
        print_note(f"what the controller has is not known: {fault}")
        return version, None


def _as_record(made: SiteSetup) -> dict[str, object]:
    from steward.clients.slurm.optional_setup import OPTIONAL_LINES, cli_filter

    lines = [
        {"line": each.text, "why": each.why, "current": each.current, "present": each.present}
        for each in made.lines
    ]
    return {
        "version": made.version,
        "lines": lines,
        "partitions": made.partitions,
        "slurm_conf": made.slurm_conf,
        "commands": made.commands,
        "script_lines": made.script_lines,
        "notes": made.notes,
        "optional_lines": [{"line": line, "why": why} for line, why in OPTIONAL_LINES],
        "cli_filter": cli_filter(),
    }


def _lines(made: SiteSetup) -> Iterator[str]:
    from steward.clients.slurm.optional_setup import OPTIONAL_LINES, cli_filter

    yield f"# slurm.conf, Slurm {made.version}"
    for each in made.lines:
        yield f"# {each.why}{_compared(each.current, present=each.present)}"
        yield each.text
    yield "# guaranteed jobs, and the pool that gives way to them: change your own partitions alike"
    yield from made.partitions
    yield "\n# once, as an administrator of accounting"
    yield from (shlex.join(each) for each in made.commands)
    yield "\n# in scripts for the pool"
    yield from made.script_lines
    yield ""
    yield from (f"# {each}" for each in made.notes)
    yield "\n# optional"
    yield from (text for line, why in OPTIONAL_LINES for text in (f"# {why}", f"# {line}"))
    yield "\n# cli_filter.lua, beside slurm.conf, before CliFilterPlugins is set"
    yield from (f"# {line}" if line else "#" for line in cli_filter().splitlines())


def _compared(current: str | None, *, present: bool) -> str:
    if current is None:
        return ""
    return " (there already)" if present else f" (now: {current or 'not set'})"
