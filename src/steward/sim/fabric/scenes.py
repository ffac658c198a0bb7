"""Made scenes: networks, jobs placed on them, and what counters show of both.

Volumes, periods and sizes are invented within ranges that published trainings span; a seed gives
the same scene everywhere. Placements are mixed: packed, balanced over leaves, scattered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steward.model.fabric.contention import Contention, JobColumns, of_entries
from steward.model.fabric.link_signs import LinkSigns
from steward.model.fabric.ring_traffic import ring_links
from steward.model.fabric.routes import Routes
from steward.model.fabric.shapes import GBIT, leaf_spine, rail_optimised
from steward.model.fabric.topology import FabricTopology
from steward.sim.fabric.steady_state import PLAIN, Losses

__all__ = ["WORLDS", "Network", "Scene", "SceneSize", "make_network", "make_scene", "see"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WORLDS = ("plain", "losses", "gray")
HOST_BYTES_PER_S = 300e9  # of a flow, by NVLink inside the node


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneSize:
    """How large made networks are: 16 to 64 nodes of 8 GPUs unless told otherwise."""

    leaves: tuple[int, int] = (4, 8)
    nodes_per_leaf: tuple[int, ...] = (4, 6, 8)

    def times(self, factor: int) -> SceneSize:
        """Return a size with so many times as many leaves."""
        return replace(self, leaves=(self.leaves[0] * factor, self.leaves[1] * factor))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """A topology with its routes, and the leaf of each node by the node's position."""

    topology: FabricTopology
    routes: Routes
    nodes: Ints  # rows of the nodes in the topology
    leaf: Ints
    nics: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scene:
    """Jobs on links as they are, and as the configuration and the counters show them."""

    true: Contention
    seen: Contention
    signs: LinkSigns
    losses: Losses
    nodes: Ints  # of each job


def make_network(dice: np.random.Generator, size: SceneSize) -> Network:
    """Draw a network: leaves under spines or rails in pods, oversubscribed one to four times."""
    leaves = int(dice.integers(size.leaves[0], size.leaves[1] + 1))
    per_leaf = int(dice.choice(size.nodes_per_leaf))
    nics = int(dice.choice([1, 2, 4, 8]))
    spines = int(dice.choice([2, 4, 8]))
    over = float(dice.uniform(1.0, 4.0))
    speed = float(dice.choice([100.0, 200.0, 400.0])) * GBIT
    if nics > 1 and dice.random() < 0.4:
        topology = rail_optimised(
            pods=max(2, leaves // 2),
            nodes_per_pod=2 * per_leaf,
            rails=nics,
            spines=spines,
            oversubscription=over,
            bytes_per_s=speed,
        )
        per_leaf *= 2
    else:
        topology = leaf_spine(
            leaves=leaves,
            nodes_per_leaf=per_leaf,
            spines=spines,
            nics=nics,
            oversubscription=over,
            bytes_per_s=speed,
        )
    nodes = topology.endpoints
    return Network(
        topology=topology,
        routes=Routes.of(topology),
        nodes=nodes,
        leaf=np.arange(len(nodes)) // per_leaf,
        nics=nics,
    )


def make_scene(seed: int, *, size: SceneSize | None = None, world: str = "plain") -> Scene:
    """Draw a network and jobs on it."""
    dice = np.random.default_rng(seed)
    network = make_network(dice, size or SceneSize())
    free = np.arange(len(network.nodes))
    most = max(4, len(free) // 3)
    jobs: list[tuple[float, float, float, float]] = []
    entries: list[tuple[Ints, Floats]] = []
    nodes: list[int] = []
    fill = float(dice.uniform(0.6, 1.0)) * len(free)
    while len(free) > 1 and sum(nodes) < fill:
        wanted = int(min(len(free), most, 2 ** dice.uniform(1.0, 5.0)))
        chosen = _choose(dice, free, network.leaf, max(2, wanted))
        free = np.setdiff1d(free, chosen)
        ring = network.nodes[dice.permutation(chosen) if dice.random() < 0.2 else chosen]
        salt = int(dice.integers(1 << 30))
        crossed = ring_links(network.routes, ring, channels=network.nics, salt=salt)
        jobs.append(draw_job(dice, network.topology.links.bytes_per_s, crossed))
        entries.append(crossed)
        nodes.append(len(chosen))
    columns = JobColumns(*np.array(jobs, np.float64).reshape(-1, 4).T)
    seen = of_entries(columns, network.topology.links.bytes_per_s, entries)
    return see(dice, network.topology, seen, np.array(nodes, np.int64), world)


def _choose(dice: np.random.Generator, free: Ints, leaf: Ints, wanted: int) -> Ints:
    """Choose free nodes: those next to each other, as many of each of some leaves, or any."""
    way = dice.random()
    if way < 0.25:
        start = int(dice.integers(0, max(1, len(free) - wanted + 1)))
        return free[start : start + wanted]
    if way < 0.6:
        some = dice.permutation(np.unique(leaf[free]))[: int(dice.choice([2, 3, 4]))]
        among = [free[leaf[free] == each] for each in some]
        rounds = max(len(each) for each in among)
        turn = [int(each[i]) for i in range(rounds) for each in among if len(each) > i]
        if len(turn) >= wanted:
            return np.sort(np.array(turn[:wanted], np.int64))
    return np.sort(dice.permutation(free)[:wanted])


def draw_job(
    dice: np.random.Generator, capacity: Floats, crossed: tuple[Ints, Floats]
) -> tuple[float, float, float, float]:
    """Draw compute time, overlap and bytes: alone, sending takes 10 to 200 % of the computing."""
    compute = float(np.exp(dice.uniform(np.log(0.1), np.log(1.0))))
    overlap = float(dice.choice([0.0, dice.uniform(0.0, 0.9)]))
    rate = float(np.min(capacity[crossed[0]])) if len(crossed[0]) else HOST_BYTES_PER_S
    ratio = float(np.exp(dice.uniform(np.log(0.1), np.log(2.0))))
    volume = ratio * compute * rate * float(dice.uniform(0.5, 1.0))
    return compute, overlap, volume, HOST_BYTES_PER_S


def see(
    dice: np.random.Generator,
    topology: FabricTopology,
    scene: Contention,
    nodes: Ints,
    world: str,
) -> Scene:
    """Draw what is wrong with a network, and what its counters show of that."""
    capacity = scene.capacity.copy()
    tier = topology.vertices.tier
    tiers = np.minimum(tier[topology.links.source], tier[topology.links.target])
    links = len(capacity)
    counted, faults = np.full(links, np.nan), np.zeros(links)
    losses, known = PLAIN, PLAIN
    if world == "losses":
        losses = Losses(float(dice.uniform(0.05, 0.3)), float(dice.uniform(0.1, 0.6)))
        noise = np.exp(0.15 * dice.standard_normal(2))
        known = Losses(float(losses[0] * noise[0]), float(losses[1] * noise[1]))
    if world == "gray":
        gray = (tiers > 0) & (dice.random(links) < 0.06)
        capacity[gray] *= dice.uniform(0.2, 0.5, int(gray.sum()))
        busy = dice.random(links) < 0.7  # so that the counters of the last days tell
        measured = capacity * np.exp(0.08 * dice.standard_normal(links))
        counted[busy] = np.minimum(measured / scene.capacity, 1.0)[busy]
        faults = np.where(gray, dice.beta(4.0, 2.0, links), dice.beta(1.0, 12.0, links))
    signs = LinkSigns(
        counted, faults, tiers.astype(np.int64), known.incast_share, known.pause_share
    )
    true = scene._replace(capacity=capacity)
    return Scene(true=true, seen=scene, signs=signs, losses=losses, nodes=nodes)
