"""How fast is the fabric simulator, and is it exact?

Collectives of 8 jobs on a rail-optimised fabric of 1,024 NICs, the same with background traffic,
and independent flows alone at three loads of a fat tree. A flow event is the begin or end of one
flow. Exactness: every end against the slow reference in plain Python, on a smaller fabric.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from report import bar, finish, progress, quick
from steward.model.fabric import shapes
from steward.model.fabric.routes import Routes
from steward.model.fabric.topology import FabricTopology
from steward.sim.fabric.background import SMALL_MIX, background
from steward.sim.fabric.build import engine_of
from steward.sim.fabric.collectives import COLLECTIVES, Wiring, messages_between, phases_of
from steward.sim.fabric.engine import SHARED, EngineRef, run
from steward.sim.fabric.reference import Reference
from steward.sim.fabric.traffic import Job, Traffic

_FOREVER = 2**62


def main() -> None:
    """Measure, compare, report."""
    short = quick()
    rails = shapes.rail_optimised(pods=8, nodes_per_pod=16, rails=8, spines=4, oversubscription=2)
    seconds = 20.0 if short else 200.0
    results: dict[str, Any] = {}
    alone = Traffic(jobs=_rings(rails))
    results["collectives"] = _speed(rails, alone, seconds)
    flows, begin_s = background(
        Routes.of(rails), SMALL_MIX, np.random.default_rng(1), load=2e-5, seconds=seconds
    )
    mixed = Traffic(jobs=_rings(rails), flows=flows, begin_s=begin_s)
    results["collectives_and_background"] = _speed(rails, mixed, seconds)
    tree = shapes.fat_tree(8)
    for load in (0.05, 0.1, 0.2):
        count = 2e4 if short else 1e5
        lasts_s = count / (load * 128 * 12.5e9 / SMALL_MIX.mean_bytes)
        flows, begin_s = background(
            Routes.of(tree), SMALL_MIX, np.random.default_rng(2), load=load, seconds=lasts_s
        )
        traffic = Traffic(flows=flows, begin_s=begin_s)
        results[f"single_flows_at_{load:.0%}"] = _speed(tree, traffic, np.inf)
    worst = max(_difference(seed) for seed in range(5 if short else 30))
    bars = [
        bar(
            f"million flow events a second, {name}",
            results[name]["million_flow_events_per_s"],
            ">=",
            1.0,
        )
        for name in ("collectives", "collectives_and_background", "single_flows_at_5%")
    ]
    bars.append(bar("largest relative difference from the reference", worst, "<=", 1e-9))
    finish("fabric_simulator", {**results, "largest_difference": worst}, bars)


def _rings(fabric: FabricTopology) -> list[Job]:
    rng = np.random.default_rng(0)
    nodes = fabric.rows([f"n{at}" for at in rng.permutation(128)])
    wiring = Wiring(routes=Routes.of(fabric), rng=rng, rails=8)
    jobs, at = [], 0
    for size in (32, 32, 16, 16, 8, 8, 8, 8):
        own = nodes[at : at + size]
        at += size
        phases = phases_of("ring", wiring, own, 8e9)
        jobs.append(
            Job(name=f"j{at}", compute_s=float(rng.uniform(0.1, 0.5)), overlap=0.3, phases=phases)
        )
    return jobs


def _speed(fabric: FabricTopology, traffic: Traffic, seconds: float) -> dict[str, float]:
    """Return the best of three runs: others use this machine, too."""
    best = np.inf
    events = shares = 0
    for _ in range(3):
        slots = sum(len(p.bundles) for job in traffic.jobs for p in job.phases)
        engine = engine_of(fabric, traffic, slots=slots + min(len(traffic.flows), 16384))
        record = EngineRef(*engine)
        run(record, -1.0, 1)  # compile, or load what was compiled
        begun = time.process_time()
        events = run(record, seconds, _FOREVER)
        best = min(best, time.process_time() - begun)
        shares = int(engine.counters[SHARED])
    progress(f"{events / best / 1e6:.2f} million flow events a second")
    return {
        "flow_events": float(events),
        "flow_events_per_share": round(events / max(shares, 1), 2),
        "thousand_shares_per_s": round(shares / best / 1e3, 1),
        "million_flow_events_per_s": round(events / best / 1e6, 3),
    }


def _difference(seed: int) -> float:
    """Return the largest relative difference of an end from that of the reference."""
    rng = np.random.default_rng(seed)
    fabric = shapes.leaf_spine(leaves=4, nodes_per_leaf=4, spines=2, nics=2, oversubscription=2)
    routes = Routes.of(fabric)
    wiring = Wiring(routes=routes, rng=rng, rails=2, choices=1 + seed % 2)
    nodes = fabric.rows([f"n{at}" for at in rng.permutation(16)])
    jobs = []
    for at, kind in enumerate(rng.permutation(list(COLLECTIVES))[:3]):
        own = nodes[5 * at : 5 * at + 5]
        phases = (
            *messages_between(wiring, own, float(rng.integers(1, 500))),
            *phases_of(str(kind), wiring, own, float(rng.uniform(1e8, 4e9))),
        )
        jobs.append(
            Job(
                name=str(at),
                compute_s=float(rng.uniform(0.01, 0.2)),
                overlap=float(rng.random()),
                phases=phases,
                steps=4,
                begin_s=float(rng.uniform(0, 0.1)),
            )
        )
    flows, begin_s = background(routes, SMALL_MIX, rng, load=0.0005, seconds=0.5)
    traffic = Traffic(jobs=jobs, flows=flows[:60], begin_s=begin_s[:60])
    slow = Reference(fabric, traffic)
    slow.run()
    engine = engine_of(fabric, traffic)
    run(EngineRef(*engine), np.inf, _FOREVER)
    mine = [*engine.end_job_s, *engine.end_s[len(engine.end_s) - len(traffic.flows) :]]
    theirs = [*(j.end_s for j in slow.jobs), *(slow.end_s[at] for at in range(len(traffic.flows)))]
    return float(np.max(np.abs(np.array(mine) / np.array(theirs) - 1)))


if __name__ == "__main__":
    main()
