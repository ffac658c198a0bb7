"""What a job occupies of a queue, and what it is charged for that."""

from __future__ import annotations

from dataclasses import dataclass

from steward.model.planning.catalog import Basis, Queue

__all__ = ["Charge", "Occupied", "charge", "occupied"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupied:
    """What is charged, over all nodes: more than was asked where memory or nodes are counted."""

    nodes: int
    cores: int
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """The price of one job, in the site's unit and in money; None: the unit has no price."""

    units: float
    unit: str
    usd: float | None


def occupied(queue: Queue, *, nodes: int, cores: int, gpus: int, memory_bytes: int = 0) -> Occupied:
    """Return what a job is charged for: `gpus` in all; cores and memory of each of its nodes.

    Memory stands for the cores, and for the GPUs, that it takes away from others.
    """
    rule = queue.charging
    each = -(-gpus // nodes)
    if not queue.shared_nodes or (rule.whole_nodes_if_several and nodes > 1):
        cores, each = max(cores, queue.cores_per_node), max(each, queue.gpus_per_node)
        return Occupied(nodes=nodes, cores=nodes * cores, gpus=nodes * each)
    dragged = _parts(memory_bytes, rule.memory_per_core_bytes)
    held = max(cores, _at_most(dragged, queue.cores_per_node))
    dragged = max(
        _parts(memory_bytes, rule.memory_per_gpu_bytes), _parts(cores, rule.cores_per_gpu)
    )
    blocked = _at_most(dragged, queue.gpus_per_node) * nodes
    return Occupied(nodes=nodes, cores=nodes * held, gpus=max(gpus, blocked))


def charge(
    queue: Queue, *, nodes: int, cores: int, gpus: int, memory_bytes: int = 0, run_s: float
) -> Charge:
    """Return what one job costs: `gpus` in all; cores and memory of each of its nodes.

    A chain of jobs costs this for each link: minimum billing counts once for each.
    """
    rule = queue.charging
    held = occupied(queue, nodes=nodes, cores=cores, gpus=gpus, memory_bytes=memory_bytes)
    per_h = _counted(rule.basis, held) * rule.rate + held.gpus * rule.gpu_rate
    units = max(per_h * max(run_s, rule.minimum_s) / 3600.0, rule.minimum_units)
    if rule.basis is Basis.FREE:
        units = 0.0
    usd = None if rule.usd_per_unit is None else units * rule.usd_per_unit
    return Charge(units=units, unit=rule.unit, usd=usd)


def _counted(basis: Basis, held: Occupied) -> int:
    counts = {Basis.NODE_S: held.nodes, Basis.GPU_S: held.gpus, Basis.CORE_S: held.cores}
    return counts.get(basis, 0)


def _parts(amount: int, of_one: int) -> int:
    return -(-amount // of_one) if of_one else 0


def _at_most(count: int, limit: int) -> int:
    return min(count, limit) if limit else count
