"""Scenes for benchmarks/network.py: fabrics, programs, and jobs placed on them at random.

Programs are of six kinds that differ in what congestion and caps do to them. How much each computes
and sends is drawn anew for every scene, so a program is never met twice alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steward.model.fabric import shapes
from steward.model.fabric.topology import SWITCH, FabricTopology
from steward.sim.fabric.background import SMALL_MIX
from steward.sim.fabric.build import engine_of
from steward.sim.fabric.engine import EngineRef, run
from steward.sim.fabric.traffic import Traffic
from steward.sim.fabric.world import FabricWorld, SimulatedJob, Surroundings

__all__ = ["FABRICS", "PROGRAMS", "Scene", "alone_step_s", "scene", "true_sensitivity"]

Floats = NDArray[np.float64]

BUFFER_BYTES = 1.5e6  # 120 us at 100 Gbit/s
LINE = 100 * shapes.GBIT
LONGER_S = 1e-5
FABRICS = {
    "leaf-spine": shapes.leaf_spine(leaves=8, nodes_per_leaf=8, spines=4, oversubscription=1.5),
    "fat-tree": shapes.fat_tree(8, bytes_per_s=LINE),
    "dragonfly": shapes.dragonfly(groups=6, routers=4, nodes_per_router=3, bytes_per_s=LINE),
}


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


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """A fabric, jobs on it, and what surrounds them."""

    fabric: FabricTopology
    jobs: tuple[SimulatedJob, ...]
    around: Surroundings

    def world(self) -> FabricWorld:
        """Return the scene, before it begins."""
        return FabricWorld(self.fabric, self.jobs, self.around)


def scene(fabric: str, seed: int, *, seconds: float, jobs: int = 10) -> Scene:
    """Draw a scene: jobs of all programs, spread over the nodes."""
    rng = np.random.default_rng([seed, sorted(FABRICS).index(fabric)])
    topology = FABRICS[fabric]
    nodes = [topology.vertices.names[at] for at in rng.permutation(topology.endpoints)]
    names = list(PROGRAMS)
    chosen = [*names, *rng.choice(names, jobs - len(names), p=[0.3, 0.2, 0.1, 0.1, 0.2, 0.1])]
    each = len(nodes) // jobs
    made = [
        _job(f"{name}-{at}", str(name), tuple(nodes[at * each : (at + 1) * each]), rng)
        for at, name in enumerate(chosen)
    ]
    around = Surroundings(
        seed=int(rng.integers(2**31)),
        table=SMALL_MIX,
        background_load=0.0002,
        seconds=seconds,
        buffer_bytes=BUFFER_BYTES,
        choices=4 if fabric == "dragonfly" else 1,
        detours=fabric == "dragonfly",
    )
    return Scene(topology, tuple(made), around)


def _job(name: str, program: str, nodes: tuple[str, ...], rng: np.random.Generator) -> SimulatedJob:
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
        volume=kind.send_share * jitter[1] * compute_s * LINE / rounds,
        messages=round(kind.messages * jitter[2]),
        overlap=kind.overlap,
        begin_s=float(rng.uniform(0.0, 1.0)),
    )


def alone_step_s(scene_: Scene, row: int) -> float:
    """Return the step time of a job that has the fabric for itself."""
    job = replace(scene_.jobs[row], begin_s=0.0)
    world = FabricWorld(scene_.fabric, [job], replace(scene_.around, background_load=0.0))
    world.advance(20 * job.compute_s + 1.0)
    return float(world.mean_step_s[0])


def true_sensitivity(scene_: Scene, row: int) -> float:
    """Return the log of a job's slowdown per millisecond if its paths took a little longer.

    The job runs alone; each link between switches is made longer by so much.
    """
    job = replace(scene_.jobs[row], begin_s=0.0)
    program = FabricWorld(
        scene_.fabric, [job], replace(scene_.around, background_load=0.0)
    ).programs[0]
    links = scene_.fabric.links
    kind = scene_.fabric.vertices.kind
    between = (kind[links.source] == SWITCH) & (kind[links.target] == SWITCH)
    steps: list[float] = []
    for longer_s in (0.0, LONGER_S):
        engine = engine_of(scene_.fabric, Traffic(jobs=[program]), buffer_bytes=BUFFER_BYTES)
        engine.delay_s[between] += longer_s
        run(EngineRef(*engine), 40 * job.compute_s + 1.0, 2**62)
        steps.append(float(engine.step_sum_s[0] / max(engine.step_count[0], 1)))
    paths = [path for phase in program.phases for path in phase.paths]
    added_ms = max(float(between[path].sum()) for path in paths) * LONGER_S * 1e3
    return float(np.log(steps[1] / steps[0]) / added_ms) if added_ms > 0 else float("nan")
