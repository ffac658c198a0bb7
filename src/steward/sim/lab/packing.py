"""How much of a cluster can be given away before nothing fits: the experiment of FGD (ATC'23).

Jobs arrive one after another and never leave, until they have asked for more than there is. What
the nodes then hold, and how much of the rest no typical job could use, is the packing's merit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.decide.placement import (
    PLACEMENTS,
    Demand,
    Guide,
    NodeOccupancy,
    Placement,
    TieBreak,
    Typical,
    place_unscored,
    take,
)
from steward.decide.placement.columns import (
    Demands,
    demands_of,
    free_nodes,
    shapes_of,
    typical_of,
)
from steward.decide.placement.score_cache import ScoreCache, empty_score_cache, place_cached
from steward.decide.placement.scores import fragment, scored_node
from steward.errors import StewardError
from steward.model.machines import Machines
from steward.model.trace import Trace

__all__ = ["AS_PUBLISHED", "OURS", "PackingRun", "Rounding", "pack"]

_TOPOLOGY = int(Placement.TOPOLOGY)  # where gangs wider than a node go, whatever scores say

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounding:
    """How scores become choices: rounded down to multiples of `unit` (0: not), then by `ties`."""

    ties: TieBreak = TieBreak.NAME
    unit: float = 1.0


AS_PUBLISHED = Rounding()
OURS = Rounding(ties=TieBreak.LEAST_FREE_GPUS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PackingRun:
    """One filling of a cluster. Shares are of all its GPUs, by the load that had arrived."""

    placement: str
    seed: int
    load_share: Floats  # 0.00, 0.01, … of the GPUs have been asked for
    allocated_share: Floats  # NaN: no arrival at that load
    fragmented_share: Floats  # idle, and of no use to the next typical job
    placed: int
    refused: int
    cpu_s: float

    @property
    def final_allocated_share(self) -> float:
        """What was given away in the end."""
        return float(self.allocated_share[~np.isnan(self.allocated_share)][-1])

    @property
    def final_fragmented_share(self) -> float:
        """What was idle and of no use in the end."""
        return float(self.fragmented_share[~np.isnan(self.fragmented_share)][-1])


def pack(
    pods: Trace,
    machines: Machines,
    placement: str,
    *,
    load: float = 1.3,
    seed: int = 42,
    rounding: Rounding | None = None,
) -> PackingRun:
    """Fill the machines with the jobs of a list, in an order drawn by `seed`, up to `load`.

    Where the list is too short, jobs drawn from it follow; where it is too long, drawn ones are
    left out. Names of nodes, which decide ties, are drawn too, as the authors do. FGD breaks ties
    by least free GPUs first unless `rounding` says otherwise; the others by name.
    """
    kind = _kind(placement)
    begun = time.process_time()
    dice = np.random.default_rng(seed)
    wants = demands_of(pods, machines)
    order = _arrivals(wants, machines, load, dice)
    nodes = _shuffled(free_nodes(machines, sizes=kind == Placement.GPU_CLUSTERING), dice)
    rounding = rounding or (OURS if kind == Placement.FGD else AS_PUBLISHED)
    guide = Guide(typical_of(wants), int(rounding.ties), rounding.unit, np.zeros(1))
    shape, first = shapes_of(wants)
    memory = empty_score_cache(len(first), len(machines))
    filling = _Filling(order, dice.random(len(order)), shape)
    rows = _fill(int(kind), nodes, wants, guide, memory, filling)
    return _summary(rows, machines, placement, seed=seed, load=load, begun=begun)


def _kind(placement: str) -> Placement:
    if placement not in PLACEMENTS:
        raise StewardError(
            f"there is no placement {placement!r}",
            where="packing experiment",
            hint=f"choose one of {', '.join(PLACEMENTS)}",
        )
    return PLACEMENTS[placement]


def _arrivals(wants: Demands, machines: Machines, load: float, dice: np.random.Generator) -> Ints:
    """Return rows of jobs: all of them mixed, then drawn ones until the load is reached."""
    asked = wants.gpus * 1000 + wants.milli
    target = load * 1000.0 * machines.total_gpus
    order = dice.permutation(len(asked))
    total = np.cumsum(asked[order])
    if not len(asked) or total[-1] == 0:
        raise StewardError(
            "no job of this list asks for a GPU",
            where="packing experiment",
            hint="give a list of jobs with GPUs",
        )
    if total[-1] > target:
        return order[total <= target]
    missing = target - total[-1]
    expected = int(missing / asked.mean() * 1.5) + 1000
    extra = dice.integers(0, len(asked), expected)
    return np.concatenate([order, extra[np.cumsum(asked[extra]) <= missing]])


def _shuffled(nodes: NodeOccupancy, dice: np.random.Generator) -> NodeOccupancy:
    order = dice.permutation(len(nodes.gpus))
    return NodeOccupancy._make(np.ascontiguousarray(column[order]) for column in nodes)


class _Filling(NamedTuple):
    """Arrivals as rows of jobs, a draw for each, and the shape of each job."""

    order: Ints
    draws: Floats
    shape: Ints


@njit
def _fill(
    kind: int,
    nodes: NodeOccupancy,
    wants: Demands,
    guide: Guide,
    memory: ScoreCache,
    filling: _Filling,
) -> Floats:
    """Place all arrivals. One row each: thousandths arrived, used, fragmented; whether placed."""
    n = len(nodes.gpus)
    out_node, out_gpus = np.zeros(n, np.int64), np.zeros(n, np.int64)
    lost = np.zeros(n)
    for node in range(n):
        lost[node] = _lost(nodes, node, guide.typical)
    rows = np.zeros((len(filling.order), 4))
    arrived, used, fragmented, widest = 0, 0, lost.sum(), nodes.gpus.max()
    for i in range(len(filling.order)):
        row = filling.order[i]
        want = Demand(
            wants.gpus[row],
            wants.milli[row],
            wants.cpus[row],
            wants.memory[row],
            wants.type_mask[row],
        )
        guide.draw[0] = filling.draws[i]
        if kind >= Placement.FGD and want.gpus <= widest:
            node, gpu = place_cached(kind, nodes, want, guide, memory, filling.shape[row])
            out_node[0], out_gpus[0] = node, -gpu - 1 if want.milli > 0 else want.gpus
            held = 1 if node >= 0 else 0
        else:
            held = place_unscored(min(kind, _TOPOLOGY), nodes, want, out_node, out_gpus)
        take(nodes, want, out_node, out_gpus, held)
        for j in range(held):
            node = out_node[j]
            memory.version[node] += 1
            fragmented -= lost[node]
            lost[node] = _lost(nodes, node, guide.typical)
            fragmented += lost[node]
        asked = want.gpus * 1000 + want.milli
        arrived += asked
        used += asked if held > 0 else 0
        rows[i, 0], rows[i, 1], rows[i, 2], rows[i, 3] = arrived, used, fragmented, held > 0
    return rows


@njit
def _lost(nodes: NodeOccupancy, node: int, typical: Typical) -> float:
    return fragment(scored_node(nodes, node), nodes.cpus_free[node], typical)


def _summary(
    rows: Floats, machines: Machines, placement: str, *, seed: int, load: float, begun: float
) -> PackingRun:
    """Average over all arrivals at the same whole per cent of load, as the authors do."""
    capacity = 1000.0 * machines.total_gpus
    percent = np.rint(100.0 * rows[:, 0] / capacity).astype(np.int64)
    steps = np.arange(round(100 * load) + 1)
    placed = int(rows[:, 3].sum())
    return PackingRun(
        placement=placement,
        seed=seed,
        load_share=steps / 100.0,
        allocated_share=_means(rows[:, 1] / capacity, percent, len(steps)),
        fragmented_share=_means(rows[:, 2] / capacity, percent, len(steps)),
        placed=placed,
        refused=len(rows) - placed,
        cpu_s=time.process_time() - begun,
    )


def _means(values: Floats, bins: Ints, count: int) -> Floats:
    """Return the mean of the values in each bin; NaN where there are none."""
    means = np.full(count, np.nan)
    sizes = np.bincount(bins, minlength=count)[:count]
    sums = np.bincount(bins, weights=values, minlength=count)[:count]
    np.divide(sums, sizes, out=means, where=sizes > 0)
    return means
