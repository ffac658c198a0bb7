"""Programs of six kinds that differ in what congestion and caps do to them, drawn as jobs.

How much each computes and sends is drawn anew for every job: none is met twice alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steward.errors import StewardError
from steward.model.fabric.topology import FabricTopology
from steward.sim.fabric.world import SimulatedJob

__all__ = ["PROGRAMS", "Program", "drawn_jobs"]

_MORE = (0.3, 0.2, 0.1, 0.1, 0.2, 0.1)  # how likely each is, once there is one of all


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What jobs of one program have in common; times and volumes are centres of what is drawn."""

    collective: str
    compute_s: float
    send_share: float  # time of sending alone at line rate, against computing
    messages: float
    overlap: float
    sensitive: bool


PROGRAMS = {
    "pretrain": Program(
        collective="ring",
        compute_s=0.20,
        send_share=0.35,
        messages=20,
        overlap=0.92,
        sensitive=False,
    ),
    "ingest": Program(
        collective="pipeline",
        compute_s=0.30,
        send_share=0.45,
        messages=5,
        overlap=0.95,
        sensitive=False,
    ),
    "finetune": Program(
        collective="ring",
        compute_s=0.12,
        send_share=0.40,
        messages=30,
        overlap=0.05,
        sensitive=True,
    ),
    "moe": Program(
        collective="all-to-all",
        compute_s=0.10,
        send_share=0.25,
        messages=100,
        overlap=0.1,
        sensitive=True,
    ),
    "lattice": Program(
        collective="ring",
        compute_s=0.05,
        send_share=0.01,
        messages=900,
        overlap=0.0,
        sensitive=True,
    ),
    "stencil": Program(
        collective="pipeline",
        compute_s=0.08,
        send_share=0.03,
        messages=250,
        overlap=0.2,
        sensitive=True,
    ),
}


def drawn_jobs(
    topology: FabricTopology, count: int, rng: np.random.Generator
) -> tuple[SimulatedJob, ...]:
    """Draw jobs of all programs, and spread them over the endpoints at random."""
    nodes = [topology.vertices.names[at] for at in rng.permutation(topology.endpoints)]
    if not 1 <= count <= len(nodes):
        raise StewardError(f"{count} jobs do not fit on {len(nodes)} endpoints")
    names = list(PROGRAMS)
    more = rng.choice(names, max(count - len(names), 0), p=_MORE)
    chosen = [*names, *more][:count]
    each = len(nodes) // count
    line = float(np.nanmax(topology.links.bytes_per_s))
    return tuple(
        _job(f"{name}-{at}", str(name), tuple(nodes[at * each : (at + 1) * each]), line, rng)
        for at, name in enumerate(chosen)
    )


def _job(
    name: str, program: str, nodes: tuple[str, ...], line: float, rng: np.random.Generator
) -> SimulatedJob:
    kind = PROGRAMS[program]
    jitter = np.exp(rng.normal(0.0, 0.2, 3))
    compute_s = kind.compute_s * jitter[0]
    rounds = 2 * (len(nodes) - 1) / len(nodes) if kind.collective == "ring" else 1.0
    return SimulatedJob(
        name=name,
        application=program,
        nodes=nodes,
        compute_s=compute_s,
        collective=kind.collective,
        volume=kind.send_share * jitter[1] * compute_s * line / rounds,
        messages=round(kind.messages * jitter[2]),
        overlap=kind.overlap,
        begin_s=float(rng.uniform(0.0, 1.0)),
    )
