"""Scenes for benchmarks/network.py: three fabrics, and jobs placed on them at random."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steward.model.fabric import shapes
from steward.model.fabric.topology import SWITCH, FabricTopology
from steward.sim.fabric.background import SMALL_MIX
from steward.sim.fabric.build import engine_of
from steward.sim.fabric.engine import EngineRef, run
from steward.sim.fabric.programs import PROGRAMS, drawn_jobs
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
    made = drawn_jobs(topology, jobs, rng)
    around = Surroundings(
        seed=int(rng.integers(2**31)),
        table=SMALL_MIX,
        background_load=0.0002,
        seconds=seconds,
        buffer_bytes=BUFFER_BYTES,
        choices=4 if fabric == "dragonfly" else 1,
        detours=fabric == "dragonfly",
    )
    return Scene(topology, made, around)


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
