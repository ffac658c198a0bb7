"""Why a job does not fit now, in words that a person who waits can use."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.decide.placement.gangs import rooms_of
from steward.decide.placement.scores import Placement
from steward.decide.placement.state import WHOLE, Demand, NodeOccupancy, fraction_on, holders

__all__ = ["DESCRIPTIONS", "why_not"]

_GIB = 2.0**30

DESCRIPTIONS: dict[Placement, str] = {
    Placement.COUNT: "only counts free GPUs; where they are makes no difference",
    Placement.PACKED: "one node if one can hold the job, else wholly free nodes; fullest first",
    Placement.SPREAD: "emptiest node first",
    Placement.TOPOLOGY: "smallest domain that holds the job: node, rack, switch; fullest first",
    Placement.FGD: "where the idle GPUs stay most useful for the jobs to be expected",
    Placement.BEST_FIT: "node with the least CPU and GPU left after the job",
    Placement.DOT_PRODUCT: "node whose free CPU and GPU line up least with what the job asks for",
    Placement.GPU_PACKING: "GPUs in use first, then nodes in use, then untouched nodes",
    Placement.GPU_CLUSTERING: "nodes that hold jobs of the same size first",
    Placement.RANDOM: "any node that holds the job",
}

Mask = NDArray[np.bool_]


def why_not(nodes: NodeOccupancy, want: Demand, *, types: tuple[str, ...] = ()) -> str:
    """Say what is missing for a job that was not placed; `types` are the names of node types.

    Speaks of one node for a job that one node could hold, as all kinds but COUNT and SPREAD do.
    """
    mine = np.array([(want.type_mask >> int(code)) & 1 for code in nodes.type], np.bool_)
    of_type = _of_type(want, types)
    if not mine.any():
        return f"there is no node{of_type}"
    if not (mine & nodes.up).any():
        return f"no node{of_type} is up"
    mine &= nodes.up
    if want.gpus > 0:
        return _no_gang(nodes, want, mine, of_type)
    if want.milli > 0:
        return _no_fraction(nodes, want, mine, of_type)
    return _no_room(nodes, want, mine, f"node{of_type}") or "it fits now"


def _of_type(want: Demand, types: tuple[str, ...]) -> str:
    names = [name for i, name in enumerate(types) if (want.type_mask >> i) & 1]
    return f" of type {' or '.join(names)}" if 0 < len(names) < len(types) else ""


def _no_gang(nodes: NodeOccupancy, want: Demand, mine: Mask, of_type: str) -> str:
    there, free = int(nodes.gpus[mine].sum()), int(nodes.free[mine].sum())
    if want.gpus > there:
        return f"{_gpus(want.gpus)} wanted, but all nodes{of_type} together have {there}"
    if want.gpus > free:
        return f"{_gpus(want.gpus)} wanted, {_are(free)} free{of_type and f' on nodes{of_type}'}"
    if want.gpus > nodes.gpus[mine].max():
        return _no_wide_gang(nodes, want, mine, of_type)
    enough = mine & (nodes.free >= want.gpus)
    if not enough.any():
        on = int((nodes.free[mine] > 0).sum())
        return (
            f"{_gpus(free)} {'is' if free == 1 else 'are'} free but on {_nodes(on)}; "
            f"no node{of_type} has {want.gpus} free"
        )
    which = f"node{of_type} with {want.gpus} free GPUs"
    return _no_room(nodes, want, enough, which) or "it fits now"


def _no_wide_gang(nodes: NodeOccupancy, want: Demand, mine: Mask, of_type: str) -> str:
    """Speak of wholly free nodes: what packed gangs wait for. The room counts CPU and memory."""
    rooms = rooms_of(nodes, want)
    if int(rooms[mine].sum()) < want.gpus:
        return (
            f"{_gpus(int(nodes.free[mine].sum()))} are free, but with the CPUs and memory "
            f"that each needs only {int(rooms[mine].sum())}"
        )
    whole = int((mine & (nodes.free == nodes.gpus) & (nodes.gpus > 0)).sum())
    largest = int(nodes.gpus[mine].max())
    needed = -(-want.gpus // largest)
    verb = "is" if whole == 1 else "are"
    return (
        f"{_gpus(int(nodes.free[mine].sum()))} are free, but only {_nodes(whole)}{of_type} "
        f"{verb} wholly free; {_gpus(want.gpus)} need {needed} nodes of {largest}"
    )


def _no_fraction(nodes: NodeOccupancy, want: Demand, mine: Mask, of_type: str) -> str:
    rows = [np.maximum(nodes.milli[i], 0) for i in np.flatnonzero(mine)]
    most = max((int(row.max(initial=0)) for row in rows), default=0)
    holding = mine.copy()
    for i in np.flatnonzero(mine):
        holding[i] = nodes.milli[i].max(initial=0) >= fraction_on(nodes, want, int(i))
    share = want.milli / WHOLE
    if not holding.any():
        return f"no GPU{of_type} has {share:g} of itself free; the most is {most / WHOLE:g}"
    which = f"node{of_type} with {share:g} of a GPU free"
    return _no_room(nodes, want, holding, which) or "it fits now"


def _no_room(nodes: NodeOccupancy, want: Demand, mine: Mask, which: str) -> str:
    """Say which of CPUs and memory no node of these has enough of; '' if one has both."""
    if (mine & np.asarray(holders(nodes, want))).any():
        return ""
    cpus, memory = float(nodes.cpus_free[mine].max()), float(nodes.memory_free[mine].max())
    if want.cpus > cpus:
        return f"no {which} has {want.cpus:g} CPUs free; the most is {cpus:g}"
    if want.memory > memory:
        return (
            f"no {which} has {want.memory / _GIB:.3g} GiB of memory free; "
            f"the most is {memory / _GIB:.3g}"
        )
    return f"no {which} has both {want.cpus:g} CPUs and {want.memory / _GIB:.3g} GiB free"


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


def _are(count: int) -> str:
    return f"{count} is" if count == 1 else f"{count} are"
