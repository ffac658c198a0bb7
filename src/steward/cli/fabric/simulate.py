"""`steward fabric simulate`: jobs on a fabric under a policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.fabric.files import read_file
from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_table, waiting
from steward.errors import StewardError, unknown_name

if TYPE_CHECKING:
    from steward.model.fabric.topology import FabricTopology
    from steward.sim.fabric.trial import Trial

__all__ = ["simulate"]

Topology = Annotated[
    Path | None, typer.Option("--topology", metavar="FILE", help="A topology file instead.")
]
Shape = Annotated[
    str,
    typer.Option(
        "--shape",
        metavar="NAME",
        help="leaf-spine, fat-tree, rail-optimised, dragonfly or nvlink-islands.",
    ),
]
Policy = Annotated[
    str,
    typer.Option(
        "--policy", metavar="NAME", help="netscope, none, uniform, biggest-talker or per-flow."
    ),
]
Seconds = Annotated[float, typer.Option("--for", metavar="SECONDS", help="Simulated time.")]
Jobs = Annotated[int, typer.Option("--jobs", metavar="N", help="How many jobs run.")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="The same seed, the same run.")]
Gbit = Annotated[
    float, typer.Option("--gbit", metavar="N", help="Speed of links whose capacity is unknown.")
]


def simulate(  # noqa: PLR0913 - options of a command
    *,
    topology: Topology = None,
    shape: Shape = "leaf-spine",
    policy: Policy = "netscope",
    seconds: Seconds = 20.0,
    jobs: Jobs = 10,
    seed: Seed = 1,
    gbit: Gbit = 100.0,
    as_json: Json = False,
) -> None:
    """Run jobs of six kinds on a fabric, and cap traffic by a policy.

    Jobs, their sizes and where they are follow from the seed. Steps are compared with those of the
    same job alone.
    """
    import numpy as np

    from steward.sim.fabric.background import SMALL_MIX
    from steward.sim.fabric.programs import drawn_jobs
    from steward.sim.fabric.trial import Trial
    from steward.sim.fabric.world import FabricWorld, Surroundings

    if not 1.0 <= seconds <= 3600.0:
        raise StewardError(f"{seconds:g} s is not possible", where="--for", hint="1 to 3600")
    fabric = _fabric(topology, shape, gbit)
    drawn = drawn_jobs(fabric, jobs, np.random.default_rng(seed))
    around = Surroundings(
        seed=seed, table=SMALL_MIX, background_load=1e-4, seconds=seconds, buffer_bytes=1.5e6
    )
    trial = Trial.of(FabricWorld(fabric, drawn, around), policy)
    with waiting("simulating"):
        while trial.world.now_s < seconds - 1e-9:
            trial.turn(min(0.5, seconds - trial.world.now_s))
    found = _record(trial, policy, seconds)
    if as_json:
        print_json(found)
        return
    print_table(
        ("Job", "Nodes", "Steps", "Step", "Slower than its best", "Cap"),
        [
            (
                row["job"],
                str(row["nodes"]),
                str(row["steps"]),
                f"{row['step_s']:.3g} s" if row["steps"] else "unknown",
                f"{row['slowdown'] - 1:.0%}" if row["slowdown"] else "unknown",
                "none" if row["cap_gbit"] is None else f"{row['cap_gbit']:.3g} Gbit/s",
            )
            for row in found["jobs"]
        ],
        empty="no jobs",
    )
    print_lines(
        [
            f"{each['t_s']:.1f} s  {each['sentence']}: {each['because']}"
            for each in found["decisions"]
        ]
    )


def _fabric(file: Path | None, shape: str, gbit: float) -> FabricTopology:
    from steward.model.fabric import shapes

    if not 0 < gbit <= 10_000:
        raise StewardError(f"{gbit:g} Gbit/s is not possible", where="--gbit")
    speed = gbit * shapes.GBIT
    if file is not None:
        return read_file(file, "").with_capacity(speed)
    made = {
        "leaf-spine": lambda: shapes.leaf_spine(oversubscription=1.5, bytes_per_s=speed),
        "fat-tree": lambda: shapes.fat_tree(8, bytes_per_s=speed),
        "rail-optimised": lambda: shapes.rail_optimised(rails=4, bytes_per_s=speed),
        "dragonfly": lambda: shapes.dragonfly(
            groups=6, routers=4, nodes_per_router=3, bytes_per_s=speed
        ),
        "nvlink-islands": lambda: shapes.nvlink_islands(bytes_per_s=speed),
    }
    if shape not in made:
        raise unknown_name("shape", shape, tuple(made))
    return made[shape]()


def _record(trial: Trial, policy: str, seconds: float) -> dict[str, Any]:
    import math

    world = trial.world
    view = world.view()
    caps = view.applications.cap_bytes_per_s
    steps, mean_s = world.steps, world.mean_step_s
    return {
        "policy": policy,
        "seconds": seconds,
        "origin": world.topology.origin,
        "jobs": [
            {
                "job": job.name,
                "application": job.application,
                "nodes": len(job.nodes),
                "steps": int(steps[at]),
                "step_s": float(mean_s[at]),
                "slowdown": float(view.applications.slowdown[at]) if steps[at] else None,
                "cap_gbit": None if math.isinf(caps[at]) else float(caps[at]) * 8 / 1e9,
            }
            for at, job in enumerate(world.jobs)
        ],
        "regions": [
            {
                "level": region.level,
                "stalled_share": region.stalled_share,
                "links": [world.topology.names_of_links[link] for link in region.links],
            }
            for region in view.regions
        ],
        "decisions": [
            {
                "t_s": each.decision.t_s,
                "action": each.decision.action.type,
                "sentence": each.decision.action.sentence,
                "because": each.decision.because,
                "useful_before": each.useful_before,
                "useful_after": each.useful_after,
            }
            for each in trial.done
        ],
    }
