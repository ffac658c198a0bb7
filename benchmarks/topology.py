"""How well slowdowns by shared links are predicted; does the learned residual decide better?

Truth is the iteration-by-iteration simulation of `sim/fabric/steady_state`; scenes have seeds that
no training used. Errors count contended jobs (slower than 5 %). Decisions are compared in three
worlds: plain max-min, incast and pause losses, and gray links seen through counters.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_arrivals import (
    losses_of_choices,
    make_arrival,
    mean_field_on,
    network_on,
    share_lost,
)
from report import bar, finish, progress, quick
from steward.decide.fabric.candidates import candidates
from steward.decide.fabric.least_contention import LeastContention, NetworkLoad
from steward.learn.topology.graph_inputs import inputs_of
from steward.learn.topology.graph_network import GraphNetwork, shipped_network
from steward.learn.topology.residual_model import SWITCHED_ON, ResidualModel
from steward.model.fabric.contention import reduced
from steward.model.fabric.link_sharing import always_on, share_links
from steward.model.fabric.link_signs import as_counted
from steward.model.fabric.node_map import node_map
from steward.model.fabric.placed_job import PlacedJob, TrafficProfile
from steward.model.fabric.shapes import GBIT, leaf_spine
from steward.sim.fabric.residual_training import TEST_SEED
from steward.sim.fabric.scenes import WORLDS, SceneSize, make_scene
from steward.sim.fabric.steady_state import measured_slowdown

Floats = NDArray[np.float64]

_CONTENDED = 1.05


def _interval(values: Sequence[float], seed: int = 0) -> list[float]:
    """Return the bootstrap interval of a mean: 95 %."""
    dice = np.random.default_rng(seed)
    array = np.array(values)
    means = array[dice.integers(0, len(array), (2000, len(array)))].mean(axis=1)
    return [float(each) for each in np.quantile(means, [0.025, 0.975])]


def errors(
    world: str, sizes: Sequence[SceneSize], scenes: int, network: GraphNetwork
) -> dict[str, Any]:
    """Return mean absolute errors of predicted slowdowns on contended jobs, by model."""
    off: dict[str, list[float]] = {
        "no contention": [],
        "max-min, always on": [],
        "mean field": [],
        "with the residual": [],
    }
    covered: list[bool] = []
    jobs = abstained = 0
    for i in range(scenes):
        scene = make_scene(TEST_SEED + i, size=sizes[i % len(sizes)], world=world)
        truth = measured_slowdown(scene.true, seed=i, losses=scene.losses)
        known = reduced(as_counted(scene.seen, scene.signs), 1.0)[0]
        inputs = inputs_of(scene.seen, scene.signs)
        low, middle, high = ResidualModel(network=network).quantiles([inputs])[0]
        contended = truth > _CONTENDED
        jobs += len(truth)
        abstained += int(np.isnan(network.slowdowns(inputs)[:, 1]).sum())
        for name, predicted in zip(
            off,
            (np.ones(len(truth)), always_on(known), share_links(known).slowdown, middle),
            strict=True,
        ):
            off[name] += np.abs(predicted / truth - 1.0)[contended].tolist()
        covered += ((low <= truth) & (truth <= high))[contended].tolist()
    return {
        "scenes": scenes,
        "jobs": jobs,
        "contended": len(covered),
        "error": {name: float(np.mean(each)) for name, each in off.items()},
        "interval of the mean field's": _interval(off["mean field"]),
        "interval with the residual": _interval(off["with the residual"]),
        "within the 80 % interval": float(np.mean(covered)),
        "abstained": abstained / max(1, jobs),
    }


def decisions(world: str, arrivals: int, network: GraphNetwork, size: SceneSize) -> dict[str, Any]:
    """Return what choices lose against the best candidate, with and without the network."""
    lost: dict[str, list[float]] = {
        "random": [],
        "packed": [],
        "mean field": [],
        "with the residual": [],
    }
    seed = TEST_SEED
    while len(lost["packed"]) < arrivals:
        seed += 1
        arrival = make_arrival(seed, world=world, size=size)
        if arrival is None:
            continue
        gpus = sum(arrival.found[0].gpus)
        lost["random"].append(float((arrival.useful.max() - arrival.useful.mean()) / gpus))
        lost["packed"].append(share_lost(arrival, 0))
        lost["mean field"].append(losses_of_choices(arrival, mean_field_on(arrival.signs)))
        lost["with the residual"].append(
            losses_of_choices(arrival, network_on(network)(arrival.signs))
        )
    gain = np.array(lost["mean field"]) - np.array(lost["with the residual"])
    return {
        "arrivals": arrivals,
        "lost": {name: float(np.mean(each)) for name, each in lost.items()},
        "intervals": {name: _interval(each) for name, each in lost.items()},
        "gained by the residual": float(gain.mean()),
        "interval of the gain": _interval(gain.tolist()),
    }


def decision_times(arrivals: int, network: GraphNetwork) -> dict[str, Any]:
    """Return milliseconds of a decision at 1,024 GPUs."""
    topology = leaf_spine(
        leaves=16, nodes_per_leaf=8, spines=8, nics=8, oversubscription=2.0, bytes_per_s=200 * GBIT
    )
    place = node_map(topology)
    line = place.nics * place.nic_bytes_per_s
    found: dict[str, list[float]] = {"mean field": [], "with the residual": []}
    models = {
        "mean field": LeastContention(),
        "with the residual": LeastContention(model=ResidualModel(network=network)),
    }
    dice = np.random.default_rng(TEST_SEED)
    for i in range(arrivals + 3):
        free = place.gpus.copy()
        jobs: list[PlacedJob] = []
        while free.sum() > 512:
            ways = candidates(place, free, 8 * int(dice.integers(2, 9)))
            chosen = ways[int(dice.integers(len(ways)))]
            profile = TrafficProfile(
                compute_s=float(dice.uniform(0.1, 1.0)),
                node_bytes=float(dice.uniform(0.05, 0.8) * line),
            )
            jobs.append(
                PlacedJob(
                    job=f"{i}-{len(jobs)}", profile=profile, nodes=chosen.nodes, gpus=chosen.gpus
                )
            )
            np.subtract.at(free, np.array(chosen.nodes), np.array(chosen.gpus))
        load = NetworkLoad(place=place, free=free, jobs=tuple(jobs))
        wanted = 8 * int(2 ** dice.integers(0, 6))
        # a live system knows the running jobs' links already
        LeastContention().rank(load, "before", jobs[0].profile, 16)
        for name, policy in models.items():
            begun = time.thread_time()
            policy.rank(load, f"new {i} {name}", jobs[0].profile, wanted)
            if i >= 3:
                found[name].append(1e3 * (time.thread_time() - begun))
    return {
        name: {"median_ms": float(np.median(each)), "p99_ms": float(np.quantile(each, 0.99))}
        for name, each in found.items()
    }


def main() -> None:
    """Run it all and print the report."""
    short = quick()
    network = shipped_network()
    assert network is not None, "no network comes with this version"
    small, large = SceneSize(), [SceneSize().times(4), SceneSize().times(8)]
    results: dict[str, Any] = {
        "network": {"parameters": network.parameters, "switched on": list(SWITCHED_ON)}
    }
    for world in WORLDS:
        results[world] = {
            "unseen placements": errors(world, [small], 30 if short else 180, network),
            "4 to 8 times larger": errors(world, large, 4 if short else 10, network),
        }
        progress(f"{world}: errors are measured")
        results[world]["decisions"] = decisions(world, 10 if short else 40, network, small)
        progress(f"{world}: decisions are compared")
    results["decision at 1,024 GPUs"] = decision_times(10 if short else 60, network)
    plain, larger = results["plain"]["unseen placements"], results["plain"]["4 to 8 times larger"]
    times = results["decision at 1,024 GPUs"]
    bars = [
        bar("mean field, error on contended jobs", plain["error"]["mean field"], "<=", 0.05),
        bar("mean field, 4 to 8 times larger", larger["error"]["mean field"], "<=", 0.07),
        bar(
            "with the residual, error on contended jobs",
            plain["error"]["with the residual"],
            "<=",
            0.03,
        ),
        bar("decision by mean field, p99 ms", times["mean field"]["p99_ms"], "<=", 10.0),
        bar("decision with the network, p99 ms", times["with the residual"]["p99_ms"], "<=", 60.0),
        *(
            bar(
                f"{world}: switched on only where decisions are better",
                float(
                    world not in SWITCHED_ON
                    or results[world]["decisions"]["interval of the gain"][0] > 0.0
                ),
                "==",
                1.0,
            )
            for world in WORLDS
        ),
    ]
    finish("topology", results, bars)


if __name__ == "__main__":
    main()
