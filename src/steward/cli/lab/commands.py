"""`steward lab compare`, `replay`, `explain` and `policies`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.lab.options import LabOptions, policies_of, spoken, takes_world
from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_table, waiting

if TYPE_CHECKING:
    from steward.model.replay import Replay

__all__ = ["Out", "Policies", "Scheduler", "Workers", "compare", "explain", "policies", "replay"]

DEFAULT_POLICIES = "fifo,srtf,tiresias,commons"

Policies = Annotated[
    str,
    typer.Option(
        "--policies",
        metavar="A,B,…",
        help="Which policies; `all` is every one. `steward lab policies` lists them.",
    ),
]
Policy = Annotated[str, typer.Option("--policy", metavar="NAME", help="Which policy.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Also write report.html and results.json there."),
]
Baseline = Annotated[
    str,
    typer.Option(
        "--baseline", metavar="NAME", help="What differences are to. Without it: the first policy."
    ),
]
Seeds = Annotated[
    int, typer.Option("--seeds", min=1, max=1000, help="Repeat with so many seeds, from --seed on.")
]
Windows = Annotated[
    int,
    typer.Option(
        "--windows", min=1, max=1000, help="Cut the trace into so many windows; run each alone."
    ),
]
Workers = Annotated[
    int, typer.Option("--workers", min=0, max=4096, help="Processes at once; 0 is all cores.")
]
Scheduler = Annotated[
    str,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Run on a Dask cluster: tcp://HOST:PORT, or slurm to start workers as Slurm jobs.",
    ),
]
CacheFolder = Annotated[
    Path | None,
    typer.Option("--cache", metavar="DIR", help="Keep results there, and use those that are."),
]
JobId = Annotated[str, typer.Option("--job", metavar="ID", help="The job, by its id in the trace.")]


@takes_world
def compare(  # noqa: PLR0913 - a command's options are its parameters
    asked: LabOptions,
    *,
    policies: Policies = DEFAULT_POLICIES,
    baseline: Baseline = "",
    seeds: Seeds = 1,
    windows: Windows = 1,
    workers: Workers = 1,
    scheduler: Scheduler = "",
    cache: CacheFolder = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Replay a trace under several policies and compare what came out.

    Every figure has its 95 % interval: blocks of jobs are drawn again and again, the same blocks
    for all policies. Jobs that no machine could ever run are left out for all policies alike, and
    shown. The same seed gives the same answer, but for cpu_s.

    TRACE is a folder or file of the data folder (its name is enough: philly, philly/103959,
    pollux/1.0/6, gavel, sia, chronus, …; $STEWARD_TRACES says where that folder is), an `sacct`
    dump (--parsable2), a file in Standard Workload Format (.swf), the public formats of Philly,
    Helios, PAI, openb and Acme, or CSV (also .gz) or Parquet.

    A CSV needs the columns job_id, submit_s, duration_s and gpus (a fraction shares a GPU), and
    may have user, tenant, gpu_type (several parted by |), cpus, memory_bytes, model, batch,
    priority (larger is more urgent), deadline_s (after submission), checkpoint_s (to save and
    restore once) and after (ids of jobs that must end before, parted by ;). Times are seconds.
    FILE#COLUMN=VALUE takes part of a file. Rows that cannot be used are counted and shown.

    Exits 1 if a policy could not run on this trace, and compares the others.
    """
    from steward.cli.lab.studies import base_of, cache_of, progress, save, watched, workers_of
    from steward.cli.views.lab import (
        COMPARE_COLUMNS,
        compare_rows,
        heading,
        left_out_lines,
        legend_lines,
    )
    from steward.sim.lab.compare import ComparisonPlan
    from steward.sim.lab.compare import compare as compare_policies
    from steward.sim.lab.recorded import AS_RECORDED, knows_its_starts

    names, settings = policies_of(policies), asked.settings()
    base = base_of(asked, settings)
    if knows_its_starts(base.trace):
        names.append(AS_RECORDED)
    plan = ComparisonPlan(
        seeds=tuple(range(asked.seed, asked.seed + seeds)),
        windows=windows,
        baseline=baseline,
        workers=workers_of(workers),
        scheduler=scheduler,
        cache=cache_of(cache),
    )
    alone = plan.workers == 1 and not scheduler and plan.cache is None
    with progress(len(names) * seeds * windows) as bar:
        here = watched(base, bar) if alone else base
        found = compare_policies(here, names, settings, plan, done=bar.done)
    said = spoken("compare", asked, policies=",".join(names), baseline=baseline)
    if out is not None:
        save(found, out, command=said)
    if as_json:
        print_json({**found.as_record(), "out": str(out) if out else None})
    else:
        print_lines(heading(found))
        print_table(COMPARE_COLUMNS, compare_rows(found), empty="no policy could be run")
        where = ["", f"the report is in {out / 'report.html'}"] if out is not None else []
        print_lines([*legend_lines(found), *left_out_lines(found), *where])
    raise typer.Exit(1 if found.failed else 0)


@takes_world
def replay(
    asked: LabOptions, *, policy: Policy = "commons", out: Out = None, as_json: Json = False
) -> None:
    """Replay a trace under one policy and judge what came out.

    --out also writes jobs.csv: when each job started and ended, how long it waited, and how often
    it was preempted.
    """
    from steward.cli.lab.studies import base_of, progress, save, save_jobs, watched
    from steward.cli.views.lab import figure_lines, heading, left_out_lines
    from steward.sim.lab.compare import compare as compare_policies

    (name,) = policies_of(policy.split(",")[0])
    settings = asked.settings()
    base = base_of(asked, settings)
    kept: list[Replay] = []
    with progress(1) as bar:
        here = watched(base, bar, kept=kept)
        found = compare_policies(here, [name], settings, done=bar.done)
    if found.failed:
        from steward.errors import StewardError

        raise StewardError(found.failed[0].problem, where=name, hint=found.failed[0].hint)
    if out is not None:
        save(found, out, command=spoken("replay", asked, policy=name))
        save_jobs(kept[0], out)
    if as_json:
        record = found.as_record()
        told = {**record["policies"][name], "out": str(out) if out else None}
        shown = {key: record[key] for key in ("trace", "cluster", "settings")}
        print_json({**shown, "policy": name, **told})
        return
    print_lines([*heading(found), *figure_lines(found, name), *left_out_lines(found)])
    if out is not None:
        print_lines(["", f"the report is in {out / 'report.html'}, each job in {out / 'jobs.csv'}"])


@takes_world
def explain(
    asked: LabOptions, *, job: JobId, policy: Policy = "commons", as_json: Json = False
) -> None:
    """Say why a job waited: what ran instead, which quota, which fragmentation."""
    from steward.cli.lab.studies import base_of
    from steward.sim.lab.compare import fitting
    from steward.sim.lab.explain import row_of, why_waited
    from steward.sim.lab.run import replay as replay_trace

    (name,) = policies_of(policy.split(",")[0])
    settings = asked.settings()
    base, _ = fitting(base_of(asked, settings))
    row = row_of(base.trace, job)
    with waiting("replaying"):
        told = why_waited(replay_trace(base.trace, base.machines, name, settings), row)
    if as_json:
        print_json(told.as_record())
        return
    print_lines(told.lines())


def policies(
    name: Annotated[str, typer.Argument(help="One policy, with its options.")] = "",
    *,
    as_json: Json = False,
) -> None:
    """List the policies: their family, what they must be told, and what they do."""
    from steward.sim.lab.run import describe_policy, family_of, known_policies, knows

    if name:
        _one_policy(name, as_json=as_json)
        return
    columns = ("name", "family", "knows", "about")
    rows = [
        (name, family_of(name), knows(name), describe_policy(name)) for name in known_policies()
    ]
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    titles = ("policy", "family", "must know", "what it does")
    print_table(titles, rows, empty="there are no policies")


def _one_policy(name: str, *, as_json: bool) -> None:
    from steward.sim.lab.run import explained, family_of, knows, options_of

    options = options_of(name)
    if as_json:
        about = {"name": name, "family": family_of(name), "knows": knows(name)}
        print_json({**about, "about": explained(name), "options": options})
        return
    typer.echo(f"{explained(name)}\n")
    rows = [(option, repr(value)) for option, value in options.items()]
    print_table(("option", "if nothing is said"), rows, empty="it has no options")
