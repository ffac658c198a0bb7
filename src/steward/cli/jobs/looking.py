"""`steward jobs why`, `cost` and `top`: what keeps jobs waiting, what they cost, all at once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.jobs.asking import JobArgument
from steward.cli.jobs.engines import Engine, JobEngine, job_engine
from steward.cli.jobs.lines import JOB_COLUMNS, cost_rows, job_rows, why_lines
from steward.cli.options import Config, Data, Json, Limit
from steward.cli.output import is_terminal, print_json, print_lines, print_table
from steward.cli.words import seconds
from steward.errors import StewardError

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["add_looking"]

FASTEST_S = 0.2
KEPT_LINES = 4  # of a terminal: the head of the table, and what stands below it
COSTS = ("id", "name", "user", "paid", "productive", "lost", "unsaved", "lent", "borrowed")


def add_looking(app: typer.Typer) -> None:
    """Add the commands that change nothing."""
    app.command()(why)
    app.command()(cost)
    app.command()(top)


def why(
    job: JobArgument,
    *,
    engine: Engine = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Say why a job does not run: who is ahead, what it lacks, when it starts, what would help."""
    found = job_engine(engine, config, data, job=job).why(job)
    if as_json:
        print_json(found)
    else:
        print_lines(why_lines(found))


def cost(
    job: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="A job or an array; all without."),
    ] = None,
    *,
    limit: Limit = 100,
    engine: Engine = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show GPU-hours: paid, productive, lost, not saved yet, lent, borrowed."""
    found = job_engine(engine, config, data, job=job).cost(job, limit=limit)
    if as_json:
        print_json(found)
        return
    print_table(COSTS, cost_rows(found), empty="no jobs")


def top(
    *,
    every: Annotated[
        str, typer.Option("--every", metavar="TIME", help="How often it is drawn: 1s, 500ms.")
    ] = "1s",
    once: Annotated[bool, typer.Option("--once", help="Print the list once, and end.")] = False,
    engine: Engine = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Watch the open jobs: those that run first, then those that wait. Key: q quits."""
    every_s = seconds(every, where="--every")
    if every_s < FASTEST_S:
        raise StewardError(
            f"{every} is less than 200 ms", where="--every", hint="nobody can read faster"
        )
    chosen = job_engine(engine, config, data)
    if as_json:
        print_json(_open_jobs(chosen))
    elif once or not is_terminal():
        print_table(JOB_COLUMNS, job_rows(_open_jobs(chosen), time.time()), empty="no jobs")
    else:
        _live(chosen, every_s)


def _open_jobs(engine: JobEngine) -> list[dict[str, Any]]:
    jobs = engine.listed(ended=False, limit=10_000)
    return sorted(jobs, key=lambda each: (not _runs(each), each["state"], each["submit_s"]))


def _runs(job: dict[str, Any]) -> bool:
    return bool(job["gpus"] or job.get("nodes"))  # Slurm's list names nodes


def _live(engine: JobEngine, every_s: float) -> None:
    from rich.console import Console
    from rich.live import Live

    from steward.cli.observe.top.keys import Keys

    console = Console(highlight=False)
    with Keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_drawn(_open_jobs(engine), console.height), refresh=True)
            if keys.wait(every_s) == "q":
                return


def _drawn(jobs: list[dict[str, Any]], height: int) -> Table:
    """Return as much of the list as fits, with how many jobs are left out."""
    from rich.table import Table
    from rich.text import Text

    run = sum(map(_runs, jobs))
    room = max(height - KEPT_LINES, 1)
    left = f"; {len(jobs) - room} more below" if len(jobs) > room else ""
    table = Table(box=None, pad_edge=False, caption=f"{run} run, {len(jobs) - run} wait{left}")
    for name in JOB_COLUMNS:
        table.add_column(name, no_wrap=True)
    for row in job_rows(jobs, time.time())[:room]:
        table.add_row(*map(Text, row))
    return table
