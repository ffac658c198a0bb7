"""All commands together, and the edge where errors become sentences and exit codes."""

from __future__ import annotations

import errno
import platform
import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from steward import __version__
from steward.cli import (
    ask,
    backup,
    config,
    decisions,
    doctor,
    estimate,
    fabric,
    findings,
    health,
    jobs,
    kubernetes,
    lab,
    learn,
    memory,
    notify,
    observe,
    report,
    rules,
    serve,
    slurm,
    status,
    token,
    up,
)
from steward.cli.options import Json, add_site
from steward.cli.output import print_error, print_json
from steward.errors import StewardError

__all__ = ["Edge", "FullHelpGroup", "app"]

WRONG_USE = 2
_LONGEST_HELP = 1000  # characters of the first sentence
_VALUE = re.compile(r"^invalid value for (.*?): Input should be ")
_HINTS = {
    errno.ENOSPC: "make room on the disk, or name a folder on another one with --data",
    errno.EDQUOT: "your quota is used up: make room, or name another folder with --data",
    errno.EACCES: "check the permissions, or name another place",
    errno.EPERM: "check the permissions, or name another place",
    errno.EROFS: "this file system is read-only: name another place",
    errno.ENOENT: "check the name; folders on the way to it have to exist",
}


class FullHelpGroup(TyperGroup):
    """Lists commands with their whole first sentence, wrapped; click cuts it to one line.

    Those that read settings take `--site`.
    """

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 - typer's own options
        super().__init__(**given)
        for command in self.commands.values():
            add_site(command)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - click's own types
        """Write the commands of this group."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, command.get_short_help_str(_LONGEST_HELP))
            for name, command in commands
            if command is not None and not command.hidden
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


class Edge(FullHelpGroup):
    """The root group. A mistake ends here as `error:` and `hint:`, never as a traceback."""

    def main(  # type: ignore[override]  # the others are typer's own and reach it through **rest
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **rest: object
    ) -> None:
        given = list(sys.argv[1:] if args is None else args) or ["--help"]
        as_json = "--json" in given
        rest["standalone_mode"] = False
        try:
            code = super().main(given, prog_name, **rest)  # type: ignore[arg-type]
        except typer.TyperException as fault:
            print_error(_wrong_use(fault), as_json=as_json)
            code = WRONG_USE
        except StewardError as fault:
            print_error(fault, as_json=as_json)
            code = WRONG_USE
        except OSError as fault:
            print_error(_refused(fault), as_json=as_json)
            code = WRONG_USE
        except typer.Abort:
            code = 1
        sys.exit(code if isinstance(code, int) else 0)


def _wrong_use(fault: typer.TyperException) -> StewardError:
    context = getattr(fault, "ctx", None)
    command = context.command_path if context is not None else "steward"
    message = fault.format_message().rstrip(".")
    problem = _VALUE.sub(r"\1 should be ", message[:1].lower() + message[1:])
    return StewardError(problem, hint=f"`{command} --help` shows what is possible")


def _refused(fault: OSError) -> StewardError:
    problem = (fault.strerror or str(fault)).lower()
    hint = _HINTS.get(fault.errno or 0, "look at the system's log for more")
    return StewardError(problem, where=str(fault.filename or ""), hint=hint)


app = typer.Typer(
    name="steward",
    cls=Edge,
    help="An autonomous steward for machine-learning infrastructure: it watches GPUs, hosts and "
    "jobs, decides what would waste less, does it carefully, and shows what it was worth.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer hands an option's value on
    if asked:
        typer.echo(f"steward {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=_print_version,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    del version  # it was printed before any command is looked for


app.command(name="up")(up.up)
app.command(name="status")(status.status)
app.command(name="doctor")(doctor.doctor)
app.command(name="ask")(ask.ask)
app.add_typer(decisions.app, name="decisions", cls=FullHelpGroup)
app.add_typer(jobs.app, name="jobs", cls=FullHelpGroup)
app.add_typer(findings.app, name="findings", cls=FullHelpGroup)
app.add_typer(notify.app, name="notify", cls=FullHelpGroup)
app.command(name="report")(report.report)
app.add_typer(estimate.app, name="estimate", cls=FullHelpGroup)
app.add_typer(observe.app, name="observe", cls=FullHelpGroup)
app.add_typer(rules.app, name="rules", cls=FullHelpGroup)
app.add_typer(lab.app, name="lab", cls=FullHelpGroup)
app.add_typer(learn.app, name="learn", cls=FullHelpGroup)
app.add_typer(serve.app, name="serve", cls=FullHelpGroup)
app.add_typer(fabric.app, name="fabric", cls=FullHelpGroup)
app.add_typer(memory.app, name="memory", cls=FullHelpGroup)
app.add_typer(health.app, name="health", cls=FullHelpGroup)
app.add_typer(slurm.app, name="slurm", cls=FullHelpGroup)
app.add_typer(kubernetes.app, name="kubernetes", cls=FullHelpGroup)
app.command(name="backup")(backup.backup)
app.command(name="restore")(backup.restore)
app.add_typer(config.app, name="config", cls=FullHelpGroup)
app.add_typer(token.app, name="token", cls=FullHelpGroup)


@app.command()
def version(*, as_json: Json = False) -> None:
    """Print the version of steward, and of Python beneath it."""
    if as_json:
        print_json({"version": __version__, "python": platform.python_version()})
    else:
        typer.echo(f"steward {__version__} (Python {platform.python_version()})")
