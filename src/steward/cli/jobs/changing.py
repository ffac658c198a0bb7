"""`steward jobs cancel`, `hold`, `preempt` and their like: what changes a job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from steward.cli.jobs.asking import DryRun, JobArgument
from steward.cli.jobs.engines import Engine, job_engine
from steward.cli.options import Config, Data, Json
from steward.cli.output import print_json, print_lines
from steward.errors import StewardError

__all__ = ["add_changing"]

Note = Annotated[str, typer.Option("--note", help="Why; it is kept with the job.")]
_SIMPLE = {
    "cancel": "End a job for good.",
    "hold": "Keep a waiting job from starting.",
    "release": "Let a held job start.",
    "save": "Ask a running job to save its work and go on.",
    "resume": "Let a stopped job go on when there is room.",
}


def add_changing(app: typer.Typer) -> None:
    """Add the commands that change jobs."""
    for what, text in _SIMPLE.items():
        _add(app, what, text)
    app.command()(preempt)
    app.command()(move)
    app.command()(extend)


def _add(app: typer.Typer, what: str, text: str) -> None:
    """Add the command that asks for one change of a job."""

    def change(  # noqa: PLR0913 - options of a command
        job: JobArgument,
        *,
        note: Note = "",
        dry_run: DryRun = False,
        engine: Engine = None,
        config: Config = None,
        data: Data = None,
        as_json: Json = False,
    ) -> None:
        asked = _Change(job=job, what=what, body={"note": note})
        asked.carry_out((engine, config, data), dry_run=dry_run, as_json=as_json)

    change.__doc__ = text
    app.command(name=what)(change)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """One change of a job that a person asks for."""

    job: str
    what: str
    body: dict[str, Any]

    def carry_out(
        self, where: tuple[str | None, Path | None, Path | None], *, dry_run: bool, as_json: bool
    ) -> None:
        """Make it where engine, configuration and data are, or show it, and print the answer."""
        engine = job_engine(*where, job=self.job)
        if dry_run:
            answer, lines = engine.planned_change(self.job, self.what, self.body)
        else:
            answer = engine.change(self.job, self.what, self.body)
            lines = [f"{each['id']}: {each['state']} ({each['why']})" for each in answer["jobs"]]
        if as_json:
            print_json(answer)
        else:
            print_lines(lines)


def preempt(  # noqa: PLR0913 - options of a command
    job: JobArgument,
    *,
    force: Annotated[bool, typer.Option("--force", help="Even if its work is lost.")] = False,
    note: Note = "",
    dry_run: DryRun = False,
    engine: Engine = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Let a running job save and go back into the queue."""
    body = {"note": note, "force": force}
    asked = _Change(job=job, what="preempt", body=body)
    asked.carry_out((engine, config, data), dry_run=dry_run, as_json=as_json)


def move(  # noqa: PLR0913 - options of a command
    job: JobArgument,
    *,
    to: Annotated[
        str,
        typer.Option("--to", metavar="WHERE", help="GPUs or slots, as gpu1,gpu2; or how many."),
    ],
    note: Note = "",
    dry_run: DryRun = False,
    engine: Engine = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Let a running job save and go on on other GPUs or slots, or on more or fewer of them."""
    names = [each.strip() for each in to.split(",") if each.strip()]
    if not names:
        hint = "write gpu1,gpu2 or cpu3, or a number"
        raise StewardError("no GPU is named", where="--to", hint=hint)
    body = {"to": int(to) if to.strip().isdecimal() else names, "note": note}
    asked = _Change(job=job, what="move", body=body)
    asked.carry_out((engine, config, data), dry_run=dry_run, as_json=as_json)


def extend(  # noqa: PLR0913 - options of a command
    job: JobArgument,
    *,
    time: Annotated[
        str,
        typer.Option(
            "--time", metavar="TIME", help="How long it may run in all, or +TIME: so much longer."
        ),
    ],
    note: Note = "",
    dry_run: DryRun = False,
    engine: Engine = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Change the time limit of a job on Slurm; a running one is only lengthened by an operator."""
    body = {"time": time, "note": note}
    asked = _Change(job=job, what="extend", body=body)
    asked.carry_out((engine, config, data), dry_run=dry_run, as_json=as_json)
