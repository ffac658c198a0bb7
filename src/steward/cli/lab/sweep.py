"""`steward lab sweep`: the same comparison at every point of a grid."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.lab.commands import Baseline, Out, Policies, Scheduler, Seeds, Windows, Workers
from steward.cli.lab.options import LabOptions, policies_of, takes_world, value_of
from steward.cli.options import Json
from steward.cli.output import plain, print_json, print_lines, print_table
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.sim.lab.sweep import Sweep

__all__ = ["sweep"]

Vary = Annotated[
    list[str],
    typer.Option(
        "--vary",
        metavar="NAME=A,B,…",
        help="What varies; repeat it for a grid: load (arrivals so many times as fast), gpus, "
        "checkpoint_s, saves_every_s, forecast_error, placement, or option.NAME.",
    ),
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Compute everything anew.")]
CacheFolder = Annotated[
    Path | None,
    typer.Option(
        "--cache", metavar="DIR", help="Where results are kept. Without it: ~/.cache/steward/lab."
    ),
]


@takes_world
def sweep(  # noqa: PLR0913 - a command's options are its parameters
    asked: LabOptions,
    *,
    vary: Vary,
    policies: Policies = "fifo,srtf,tiresias,commons",
    baseline: Baseline = "",
    seeds: Seeds = 1,
    windows: Windows = 1,
    workers: Workers = 0,
    scheduler: Scheduler = "",
    cache: CacheFolder = None,
    no_cache: NoCache = False,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Compare policies at every point of a grid, on all cores or on many machines.

    Results are kept by content: the trace, the machines, the policy, the settings and our own
    code. What is there already is not computed again. --out writes results.json and results.csv.
    """
    from steward.cli.lab.studies import base_of, cache_of, progress, workers_of
    from steward.cli.views.lab import sweep_columns, sweep_rows
    from steward.sim.lab.compare import ComparisonPlan
    from steward.sim.lab.sweep import check
    from steward.sim.lab.sweep import sweep as sweep_grid

    names, settings, grid = policies_of(policies), asked.settings(), _grid(vary)
    check(grid)
    base = base_of(asked, settings)
    plan = ComparisonPlan(
        seeds=tuple(range(asked.seed, asked.seed + seeds)),
        windows=windows,
        baseline=baseline,
        workers=workers_of(workers),
        scheduler=scheduler,
        cache=None if no_cache else cache_of(cache, use=True),
    )
    points = 1
    for values in grid.values():
        points *= len(values)
    with progress(points * len(names) * seeds * windows) as bar:
        found = sweep_grid(base, names, settings, plan, vary=grid, done=bar.done)
    if out is not None:
        _save(found, out)
    if as_json:
        print_json({**found.as_record(), "out": str(out) if out else None})
    else:
        print_table(sweep_columns(found), sweep_rows(found), empty="nothing could be run")
        if out is not None:
            print_lines(["", f"all figures are in {out / 'results.csv'}"])
    raise typer.Exit(1 if any(point.comparison.failed for point in found.points) else 0)


def _grid(vary: Sequence[str]) -> dict[str, list[Any]]:
    grid: dict[str, list[Any]] = {}
    for each in vary:
        name, _, values = each.partition("=")
        parts = [value_of(part.strip()) for part in values.split(",") if part.strip()]
        if not name.strip() or not parts:
            raise StewardError(
                f"'{each}' is not NAME=A,B,…",
                where="--vary",
                hint="such as `--vary load=0.8,1.0,1.2`",
            )
        grid[name.strip()] = list(dict.fromkeys(parts))
    return grid


def _save(found: Sweep, folder: Path) -> None:
    from steward.cli.lab.studies import write_whole

    record = plain(found.as_record())
    write_whole(folder / "results.json", json.dumps(record, indent=1, allow_nan=False))
    rows = list(found.rows())
    text = StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["policy"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(folder / "results.csv", text.getvalue())
