"""`steward jobs`: submit, watch and change jobs on this machine, Slurm or Kubernetes."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from steward.cli.jobs.asking import JobArgument, patiently
from steward.cli.jobs.changing import add_changing
from steward.cli.jobs.engines import Engine, JobEngine, SubmitRequest, job_engine
from steward.cli.jobs.following import add_following
from steward.cli.jobs.lines import JOB_COLUMNS, job_lines, job_rows
from steward.cli.jobs.looking import add_looking
from steward.cli.jobs.planned import by_plan, steps_of
from steward.cli.options import Config, Data, Json, Limit
from steward.cli.output import print_json, print_lines, print_note, print_table

__all__ = ["app"]

app = typer.Typer(
    help="Submit, watch and change jobs on this machine, Slurm or Kubernetes.",
    rich_markup_mode=None,
)

POLL_S = 0.2
AS_COMMAND = "steward.jobs.as_command"
Text = str | None


def _option(name: str, *more: str, text: str) -> Any:  # noqa: ANN401 - typer's own type
    return typer.Option(f"--{name}", *more, metavar="VALUE", help=text)


class _Submit(TyperCommand):
    """Notes whether `--` stands before what to run; click drops it without a word."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - click's
        given = list(args)
        rest = super().parse_args(ctx, args)
        before = len(given) - len(ctx.params.get("command") or ()) - 1
        ctx.meta[AS_COMMAND] = before >= 0 and given[before] == "--"
        return rest


@app.command(cls=_Submit, context_settings={"allow_interspersed_args": False})
def submit(  # noqa: PLR0913 - options of a command
    context: typer.Context,
    command: Annotated[
        list[str],
        typer.Argument(metavar="SCRIPT [ARGUMENT]... | -- COMMAND...", help="What to run."),
    ],
    *,
    name: Annotated[Text, _option("job-name", "-J", text="What it is called.")] = None,
    gpus: Annotated[Text, _option("gpus", "-G", text="How many GPUs.")] = None,
    slots: Annotated[Text, _option("slots", text="How many CPU slots, without GPUs.")] = None,
    least: Annotated[Text, _option("min-gpus", text="Fewest GPUs or slots to go on with.")] = None,
    most: Annotated[Text, _option("max-gpus", text="Most GPUs or slots to go on with.")] = None,
    cpus: Annotated[Text, _option("cpus-per-task", "-c", text="CPU limit, in cores.")] = None,
    mem: Annotated[Text, _option("mem", text="Memory limit, as 16G.")] = None,
    gpu_memory: Annotated[Text, _option("gpu-memory", text="What it needs on each GPU.")] = None,
    limit: Annotated[Text, _option("time", "-t", text="Time limit, as 2:00:00 or 90s.")] = None,
    array: Annotated[Text, _option("array", "-a", text="Indices, as 0-9.")] = None,
    dependency: Annotated[Text, _option("dependency", "-d", text="As afterok:12.")] = None,
    output: Annotated[Text, _option("output", "-o", text="Where its output goes.")] = None,
    error: Annotated[Text, _option("error", "-e", text="Where its errors go.")] = None,
    chdir: Annotated[Text, _option("chdir", "-D", text="Where it runs.")] = None,
    export: Annotated[Text, _option("export", text="ALL, NONE, or NAME=VALUE.")] = None,
    warn: Annotated[Text, _option("signal", text="Before the time limit, as USR1@60.")] = None,
    priority: Annotated[
        Text, _option("priority", text="Higher starts first; on Kubernetes a class.")
    ] = None,
    nice: Annotated[Text, _option("nice", text="Lowers the priority.")] = None,
    slowdown: Annotated[
        Text, _option("max-slowdown", text="Save energy at up to this slowdown, as 5%.")
    ] = None,
    token: Annotated[Text, _option("token", text="The same token is the same job.")] = None,
    image: Annotated[
        Text, _option("image", text="Kubernetes: what it runs in [jobs.kubernetes_image].")
    ] = None,
    volume: Annotated[
        list[str] | None,
        _option("volume", text="Kubernetes: a claim and where it is mounted, as data:/data."),
    ] = None,
    partition: Annotated[
        Text, _option("partition", "-p", text="Slurm: where it waits; Kubernetes: Kueue's queue.")
    ] = None,
    account: Annotated[Text, _option("account", "-A", text="Slurm: who pays.")] = None,
    qos: Annotated[Text, _option("qos", "-q", text="Slurm: its quality of service.")] = None,
    nodes: Annotated[
        Text, _option("nodes", "-N", text="Slurm: how many nodes; Kubernetes: pods.")
    ] = None,
    ntasks: Annotated[Text, _option("ntasks", "-n", text="Slurm: how many tasks.")] = None,
    saves: Annotated[
        Text,
        _option("saves", text="Slurm, Kubernetes: it saves within so many seconds of USR2, TERM."),
    ] = None,
    sbatch: Annotated[
        list[str] | None,
        _option("sbatch", text="Slurm: an option of sbatch, as --sbatch=--exclusive."),
    ] = None,
    inside: Annotated[
        Text,
        _option(
            "inside",
            text="Slurm: run in this running job of yours; `idle`: in any whose GPUs idle.",
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="FILE",
            help="Where and with what a plan says: the JSON of `estimate plan`.",
        ),
    ] = None,
    choice: Annotated[
        int, typer.Option("--choice", min=1, help="Which of the plan's choices.")
    ] = 1,
    steps: Annotated[
        Text, _option("steps", text="With --plan: how many steps all of the work is.")
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow/--no-follow", help="With --plan: follow the job, and move it."),
    ] = True,
    as_is: Annotated[
        bool, typer.Option("--as-is", help="Slurm: the script without steward's shell around it.")
    ] = False,
    requeue: Annotated[
        bool, typer.Option("--requeue", help="Start anew if lost or called back.")
    ] = False,
    hold: Annotated[bool, typer.Option("--hold", "-H", help="Wait for a release.")] = False,
    wait_: Annotated[bool, typer.Option("--wait", "-W", help="Wait; exit as it does.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would run.")] = False,
    engine: Engine = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Submit a script, or a command after `--`; `#SBATCH` lines of a script are read."""
    texts = {
        "job-name": name, "gpus": gpus, "slots": slots, "min-gpus": least, "max-gpus": most,
        "cpus-per-task": cpus, "mem": mem, "gpu-memory": gpu_memory,
        "time": limit, "array": array, "dependency": dependency, "output": output, "error": error,
        "chdir": chdir, "export": export, "signal": warn, "priority": priority, "nice": nice,
        "max-slowdown": slowdown, "token": token, "partition": partition, "account": account,
        "qos": qos, "nodes": nodes, "ntasks": ntasks, "saves": saves,
        "image": image,
    }  # fmt: skip
    given = {key: value for key, value in texts.items() if value is not None}
    given |= {key: "" for key, on in (("requeue", requeue), ("hold", hold)) if on}
    planned, all_steps = None, steps_of(steps)
    if plan is not None:
        planned = by_plan(plan, choice, engine, config, data)
        engine, given = planned.engine, {**planned.options, **given}
    chosen = job_engine(engine, config, data)
    request = SubmitRequest(
        command=command,
        as_command=context.meta[AS_COMMAND],
        given=given,
        sbatch=sbatch or (),
        as_is=as_is,
        inside=inside or "",
        volumes=volume or (),
    )
    if planned is not None and follow and not dry_run and "array" not in given:
        made = planned.submit(chosen, request, steps=all_steps)
    else:
        made = chosen.submit(request, dry_run=dry_run)
    if made.ignored:
        print_note(f"these options mean nothing here: {', '.join(made.ignored)}")
    if made.note:
        print_note(made.note)
    if as_json:
        print_json(made.record)
    else:
        print_lines(made.lines if dry_run else [str(made.record["id"])])
    if not dry_run and (wait_ or made.wait):
        raise typer.Exit(_wait(str(made.record["id"]), chosen))


@app.command(name="list")
def list_(
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also those that are over.")] = False,
    limit: Limit = 100,
    engine: Engine = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List jobs, newest first."""
    found = job_engine(engine, config, data).listed(ended=everything, limit=limit)
    if as_json:
        print_json(found)
        return
    print_table(
        JOB_COLUMNS,
        job_rows(found, time.time()),
        empty="no jobs" if everything else "no open jobs; --all shows all",
    )


@app.command()
def show(
    job: JobArgument,
    *,
    engine: Engine = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show one job with its whole life."""
    found = job_engine(engine, config, data, job=job).show(job)
    if as_json:
        print_json(found)
        return
    print_lines(job_lines(found))


@app.command()
def logs(
    job: JobArgument,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Until the job ends.")] = False,
    engine: Engine = None,
    config: Config = None,
    data: Data = None,
) -> None:
    """Print the output of a job, of all its runs in their order."""
    chosen = job_engine(engine, config, data, job=job)
    log, pause_s = chosen.log(job), POLL_S
    while True:
        part = patiently(log.read) if follow else log.read()
        if part.note:
            print_note(f"steward: {part.note}")
        sys.stdout.write(part.text)
        sys.stdout.flush()
        if part.text:
            pause_s = POLL_S
            continue
        if part.over or not follow:
            return
        pause_s = min(pause_s * 1.3, chosen.slowest_poll_s)
        time.sleep(pause_s)


@app.command()
def wait(
    job: JobArgument, *, engine: Engine = None, config: Config = None, data: Data = None
) -> None:
    """Wait until a job is over and exit with its status; steward may be restarted meanwhile."""
    raise typer.Exit(_wait(job, job_engine(engine, config, data, job=job)))


def _wait(job: str, engine: JobEngine) -> int:
    pause_s = 0.05
    while True:
        code = patiently(lambda: engine.status(job))
        if code is not None:
            return code
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.3, engine.slowest_poll_s)


add_changing(app)
add_following(app)
add_looking(app)
