"""Jobs that arrive on networks in use: candidates, what each would truly bring, and who chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steward.decide.fabric.candidates import Candidate, candidates
from steward.decide.fabric.least_contention import LeastContention, NetworkLoad, SlowdownModel
from steward.learn.topology.graph_network import GraphNetwork
from steward.learn.topology.residual_model import ResidualModel
from steward.model.fabric.contention import Contention, alone_rate, iteration_s, reduced
from steward.model.fabric.link_sharing import share_links
from steward.model.fabric.link_signs import LinkSigns
from steward.model.fabric.node_map import node_map
from steward.model.fabric.placed_job import PlacedJob, TrafficProfile, contention_of, entries_of
from steward.sim.fabric.scenes import SceneSize, make_network, see
from steward.sim.fabric.steady_state import Losses, measured_slowdown

__all__ = ["Arrival", "losses_of_choices", "make_arrival", "mean_field_on", "network_on"]

Floats = NDArray[np.float64]
_HIDDEN = 1 << 40  # salts that no policy draws


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arrival:
    """A network with jobs, one more job, and the useful GPUs of each candidate as measured."""

    load: NetworkLoad
    job: PlacedJob  # where it would be is of no meaning
    found: tuple[Candidate, ...]
    useful: Floats
    signs: LinkSigns


def _profile(dice: np.random.Generator, line: float) -> TrafficProfile:
    compute = float(np.exp(dice.uniform(np.log(0.1), 0.0)))
    ratio = float(np.exp(dice.uniform(np.log(0.1), np.log(1.5))))
    overlap = float(dice.choice([0.0, dice.uniform(0.0, 0.8)]))
    return TrafficProfile(
        compute_s=compute, node_bytes=ratio * compute * line, overlap_share=overlap
    )


def make_arrival(
    seed: int, *, world: str = "plain", size: SceneSize | None = None
) -> Arrival | None:
    """Draw a network in use and a job; None where it has fewer than three places to go."""
    dice = np.random.default_rng((seed, 77))
    network = make_network(dice, size or SceneSize())
    place = node_map(network.topology, routes=network.routes)
    line = place.nics * place.nic_bytes_per_s
    free = place.gpus.copy()
    jobs: list[PlacedJob] = []
    target = dice.uniform(0.3, 0.55) * free.sum()
    while free.sum() > target:
        wanted = 8 * int(min(2 ** dice.uniform(1.0, 4.0), free.sum() // 8))
        ways = candidates(place, free, max(16, wanted))
        if not ways:
            break
        chosen = ways[int(dice.integers(len(ways)))]
        name = f"r{len(jobs)}"
        jobs.append(
            PlacedJob(job=name, profile=_profile(dice, line), nodes=chosen.nodes, gpus=chosen.gpus)
        )
        np.subtract.at(free, np.array(chosen.nodes), np.array(chosen.gpus))
    wanted = 8 * int(2 ** dice.uniform(1.0, 4.0))
    found = candidates(place, free, max(16, wanted))
    if len(found) < 3:
        return None
    load = NetworkLoad(place=place, free=free, jobs=tuple(jobs))
    new = PlacedJob(job="new", profile=_profile(dice, line), nodes=(), gpus=())
    entries = [entries_of(place, each, _HIDDEN + seed * 64 + i) for i, each in enumerate(jobs)]
    base = see(
        dice, network.topology, contention_of(place, jobs, entries), np.zeros(0, np.int64), world
    )
    useful = [
        _truly_useful(
            load,
            replace(new, nodes=each.nodes, gpus=each.gpus),
            entries,
            seed,
            base.true.capacity,
            base.losses,
        )
        for each in found
    ]
    return Arrival(load=load, job=new, found=found, useful=np.array(useful), signs=base.signs)


def _truly_useful(
    load: NetworkLoad,
    new: PlacedJob,
    entries: Sequence[tuple[NDArray[np.int64], Floats]],
    seed: int,
    capacity: Floats,
    losses: Losses,
) -> float:
    jobs = [*load.jobs, new]
    own = entries_of(load.place, new, _HIDDEN + seed * 64 + 63)
    scene = contention_of(load.place, jobs, [*entries, own])._replace(capacity=capacity)
    took = measured_slowdown(scene, seed=seed, losses=losses, iterations=12)
    rates = alone_rate(scene)
    return sum(
        job.total_gpus
        * job.profile.compute_s
        / (iteration_s(scene, row, rates[row]) * max(1.0, float(took[row])))
        for row, job in enumerate(jobs)
    )


def mean_field_on(signs: LinkSigns) -> SlowdownModel:
    """Return the mean field with what counters show beside capacities, which the scenes have."""

    def model(scenes: Sequence[Contention]) -> list[Floats]:
        known = [each._replace(incast_share=signs.incast_share) for each in scenes]
        return [share_links(reduced(each, 1.0)[0]).slowdown for each in known]

    return model


def network_on(network: GraphNetwork) -> Callable[[LinkSigns], SlowdownModel]:
    """Return the network on the mean field, for given counters.

    It was trained on configured capacities and takes counted ones from the counters, so scenes
    that have them already are turned back.
    """

    def on(signs: LinkSigns) -> SlowdownModel:
        share = np.where(np.isnan(signs.counted_share), 1.0, signs.counted_share)
        residual = ResidualModel(network=network, signs=lambda _: signs)
        return lambda scenes: residual(
            [each._replace(capacity=each.capacity / share) for each in scenes]
        )

    return on


def losses_of_choices(arrival: Arrival, model: SlowdownModel) -> float:
    """Return what the choice loses against the best candidate, as a share of the job's GPUs.

    A change of capacity that counters show also changes how fast jobs are alone: predictions are
    slowdowns on the network as it is counted.
    """
    policy = LeastContention(fragment_weight=0.0, model=model)
    counted = as_counted_place(arrival)
    ranked = policy.weigh(counted, "new", arrival.job.profile, arrival.found)
    chosen = arrival.found.index(ranked[0].candidate)
    return share_lost(arrival, chosen)


def as_counted_place(arrival: Arrival) -> NetworkLoad:
    """Return the load on links with the capacities that counters show."""
    place = arrival.load.place
    share = np.where(np.isnan(arrival.signs.counted_share), 1.0, arrival.signs.counted_share)
    return replace(arrival.load, place=replace(place, capacity=place.capacity * share))


def share_lost(arrival: Arrival, chosen: int) -> float:
    """Return what one candidate loses against the best, as a share of the job's GPUs."""
    gpus = sum(arrival.found[0].gpus)
    return float((arrival.useful.max() - arrival.useful[chosen]) / gpus)
