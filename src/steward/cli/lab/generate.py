"""`steward lab generate`: a workload of any size that is like a recorded one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, waiting

__all__ = ["generate"]

Source = Annotated[
    str, typer.Argument(metavar="TRACE", help="The trace to be like; as for `compare`.")
]
Jobs = Annotated[
    int, typer.Option("--jobs", min=1, max=100_000_000, metavar="N", help="How many jobs to make.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Which dice are thrown.")]
Load = Annotated[
    float, typer.Option("--load", min=0.001, max=1000, help="Let jobs come so many times as fast.")
]
Tenants = Annotated[
    int,
    typer.Option(
        "--tenants", min=0, max=100_000, help="How many tenants; 0 is those of the trace."
    ),
]
File = Annotated[Path, typer.Option("--out", metavar="FILE", help="The CSV file to write.")]


def generate(  # noqa: PLR0913 - a command's options are its parameters
    trace: Source,
    *,
    jobs: Jobs,
    out: File,
    seed: Seed = 0,
    load: Load = 1.0,
    tenants: Tenants = 0,
    as_json: Json = False,
) -> None:
    """Make up a workload that is like a trace: arrivals, sizes, durations, tenants.

    What comes out is synthetic, also its users and job names, and is labelled so wherever it is
    shown.
    """
    from steward.sim.lab import generate as making
    from steward.sim.traces import read_trace

    with waiting("reading the trace"):
        recorded = read_trace(trace)
    with waiting("making up jobs"):
        model = making.fit(recorded)
        made = making.generate(model, jobs=jobs, seed=seed, load=load, tenants=tenants)
        making.write_csv(made, out)
    if as_json:
        print_json({"out": str(out), "jobs": len(made), "like": recorded.name, "synthetic": True})
        return
    print_lines([f"{len(made)} synthetic jobs like {recorded.name} are in {out}"])
