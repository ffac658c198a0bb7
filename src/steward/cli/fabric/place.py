"""`steward fabric place`: where the network bears a job, and how engines are asked for that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_table
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.decide.fabric.least_contention import NetworkLoad, Ranked
    from steward.model.fabric.node_map import NodeMap
    from steward.model.fabric.placed_job import PlacedJob, TrafficProfile

__all__ = ["place"]

Topology = Annotated[Path, typer.Argument(metavar="FILE", help="A topology, in any known form.")]
Running = Annotated[
    Path | None,
    typer.Option(
        "--running",
        metavar="FILE",
        help="JSON: a list of jobs with name, nodes, gpus (of each node), compute_s, node_bytes, "
        "overlap_share.",
    ),
]
Gpus = Annotated[int, typer.Option("--gpus", min=1, help="GPUs of the new job.")]
PerNode = Annotated[int, typer.Option("--gpus-per-node", min=1, help="GPUs of each node.")]
Compute = Annotated[float, typer.Option("--compute-s", help="Computing of one iteration.")]
Sent = Annotated[
    float, typer.Option("--node-bytes", help="Bytes that each node sends on, per iteration.")
]
Overlap = Annotated[float, typer.Option("--overlap-share", help="Of computing, while it sends.")]
Capacity = Annotated[
    float | None,
    typer.Option("--gbit-s", min=0.001, help="Speed of links of which none is known."),
]
_SHOWN = 6


def place(  # noqa: PLR0913 - options of a command
    file: Topology,
    *,
    gpus: Gpus,
    running: Running = None,
    gpus_per_node: PerNode = 8,
    compute_s: Compute = 1.0,
    node_bytes: Sent = 10e9,
    overlap_share: Overlap = 0.0,
    gbit_s: Capacity = None,
    as_json: Json = False,
) -> None:
    """Rank placements of a job by least contention, with hints for Slurm and Kubernetes.

    Exits 1 when the job does not fit now.
    """
    from steward.decide.fabric.least_contention import LeastContention
    from steward.model.fabric.node_map import node_map
    from steward.model.fabric.placed_job import TrafficProfile
    from steward.observe.fabric import read_topology

    topology = read_topology(_text(file), where=str(file))
    if gbit_s is not None:
        topology = topology.with_capacity(gbit_s * 1e9 / 8)
    nodes = node_map(topology, gpus_per_node=gpus_per_node)
    profile = TrafficProfile(
        compute_s=compute_s, node_bytes=node_bytes, overlap_share=overlap_share
    )
    load = _load(nodes, running)
    ranked = LeastContention().rank(load, "new", profile, gpus)
    if not ranked:
        if as_json:
            print_json({"free_gpus": int(load.free.sum()), "candidates": []})
        else:
            print_lines([f"{gpus} GPUs do not fit now: {int(load.free.sum())} are free"])
        raise typer.Exit(1)
    found = _result(load, ranked, profile)
    if as_json:
        print_json(found)
        return
    print_lines([found["because"], f"Slurm: {' '.join(found['slurm'])}"])
    print_table(
        ("candidate", "nodes", "slowdown", "useful GPUs"),
        [
            (
                each["kind"],
                str(len(each["nodes"])),
                f"{each['slowdown']:.2f}",
                f"{each['useful_gpus']:.1f}",
            )
            for each in found["candidates"][:_SHOWN]
        ],
        empty="",
    )


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise StewardError(
            f"cannot be read: {fault}", where=str(file), hint="give a readable text file"
        ) from fault


def _load(nodes: NodeMap, file: Path | None) -> NetworkLoad:
    import numpy as np

    from steward.decide.fabric.least_contention import NetworkLoad

    jobs = () if file is None else _jobs(nodes, file)
    free = nodes.gpus.copy()
    for job in jobs:
        np.subtract.at(free, np.array(job.nodes), np.array(job.gpus))
    over = [nodes.names[row] for row in np.flatnonzero(free < 0)]
    if over:
        raise StewardError(
            f"more GPUs are used than there are on {', '.join(over)}",
            where=str(file),
            hint="give each GPU to one job, or raise --gpus-per-node",
        )
    return NetworkLoad(place=nodes, free=free, jobs=jobs)


def _jobs(nodes: NodeMap, file: Path) -> tuple[PlacedJob, ...]:
    import json

    try:
        rows = json.loads(_text(file))
    except json.JSONDecodeError as fault:
        raise StewardError(
            f"is no JSON: {fault}", where=str(file), hint="give a list of jobs"
        ) from fault
    if not isinstance(rows, list):
        raise StewardError("is no list", where=str(file), hint="give a list of jobs")
    rows_of = {name: row for row, name in enumerate(nodes.names)}
    return tuple(_job(rows_of, each, f"{file}: job {i}") for i, each in enumerate(rows))


def _job(rows: dict[str, int], line: Any, where: str) -> PlacedJob:  # noqa: ANN401 - JSON
    from steward.model.fabric.placed_job import PlacedJob, TrafficProfile

    try:
        named = [str(each) for each in line["nodes"]]
        gpus = [int(each) for each in line["gpus"]]
        profile = TrafficProfile(
            compute_s=float(line["compute_s"]),
            node_bytes=float(line["node_bytes"]),
            overlap_share=float(line.get("overlap_share", 0.0)),
        )
        name = str(line["name"])
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise StewardError(
            f"cannot be read: {type(fault).__name__} {fault}",
            where=where,
            hint="a job has name, nodes, gpus, compute_s and node_bytes",
        ) from fault
    unknown = [each for each in named if each not in rows]
    if unknown or len(named) != len(gpus) or min(gpus, default=0) < 1:
        raise StewardError(
            f"nodes that are not in the topology: {', '.join(unknown)}"
            if unknown
            else "`gpus` does not give one number above 0 for each node",
            where=where,
            hint="name nodes as the topology does, and the GPUs on each",
        )
    return PlacedJob(
        job=name, profile=profile, nodes=tuple(rows[each] for each in named), gpus=tuple(gpus)
    )


def _result(
    load: NetworkLoad, ranked: tuple[Ranked, ...], profile: TrafficProfile
) -> dict[str, Any]:
    """Return the candidates, why the first is best, and how engines are asked for it."""
    from steward.clients.kubernetes.placement_hints import node_affinity
    from steward.clients.slurm.placement_hints import sbatch_options
    from steward.decide.fabric.explain_slowdown import explain_slowdown, sentence_of
    from steward.model.fabric.placed_job import PlacedJob, contention_of, entries_of

    nodes, best = load.place, ranked[0].candidate
    jobs = [*load.jobs, PlacedJob(job="new", profile=profile, nodes=best.nodes, gpus=best.gpus)]
    scene = contention_of(nodes, jobs, [entries_of(nodes, each, 0) for each in jobs])
    parts = explain_slowdown(scene, len(jobs) - 1, [each.job for each in jobs])
    names = [nodes.names[node] for node in best.nodes]
    leaves = len({int(nodes.leaf[node]) for node in best.nodes})
    return {
        "because": sentence_of(ranked, parts, nodes),
        "links": [
            {"link": nodes.link_name(each.link), "part": each.part, "jobs": list(each.neighbours)}
            for each in parts
        ],
        "slurm": list(sbatch_options(names, best.gpus, switches=leaves)),
        "kubernetes": node_affinity(names),
        "candidates": [
            {
                "kind": each.candidate.kind,
                "nodes": [nodes.names[node] for node in each.candidate.nodes],
                "gpus": list(each.candidate.gpus),
                "slowdown": each.mean_slowdown,
                "slowdown_interval": list(each.interval),
                "useful_gpus": each.useful_gpus,
                "fragmented_gpus": each.fragmented,
            }
            for each in ranked
        ],
    }
