"""The hardware of a simulated site, who sits on it, and the line of those who wait.

State is a struct of arrays, one entry per GPU, so that any number of GPUs is looked at at once.
The rules of the line are those that most sites run: by priority, then by submission, whoever fits
first, all GPUs of a job on one node, on the node that it fills best.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from steward.model.cluster import GIB, Cluster, Gpu, Health, Link, LinkKind, Node, Switch
from steward.model.identity import GpuId, NodeId
from steward.sim.scenario import Scenario

__all__ = ["BORROWER", "NOBODY", "OWNER", "ClusterState", "WaitingLine", "build_cluster"]

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

OWNER, BORROWER = 0, 1  # the two seats of each GPU
NOBODY = -1
ROOM_S = 60.0  # GPUs free for so long are room; between two turns of a scheduler some are free too
NVLINK_BYTES_PER_S = 900e9  # of an H200, all links of one GPU together
NODE_BYTES_PER_S = 400e9  # eight 400 Gbit/s adapters
LEAVES_PER_SPINE = 32


def build_cluster(scenario: Scenario) -> Cluster:
    """Return the site: NVLink inside a node, leaf and spine switches between nodes."""
    width = max(2, len(str(scenario.nodes)))
    leaves = -(-scenario.nodes // scenario.nodes_per_leaf)
    spines = -(-leaves // LEAVES_PER_SPINE)
    nodes = tuple(_node(scenario, f"n{i + 1:0{width}d}", i) for i in range(scenario.nodes))
    switches = [
        Switch(id=f"leaf{i + 1}", tier=0, parent=f"spine{i // LEAVES_PER_SPINE + 1}")
        for i in range(leaves)
    ]
    switches += [Switch(id=f"spine{i + 1}", tier=1) for i in range(spines)]
    links = [link for node in nodes for link in _links(node)]
    links += [
        _link(switch.id, switch.parent, LinkKind.INFINIBAND, 4 * NODE_BYTES_PER_S)
        for switch in switches
        if switch.parent
    ]
    return Cluster(id=scenario.name, nodes=nodes, links=tuple(links), switches=tuple(switches))


def _node(scenario: Scenario, name: str, position: int) -> Node:
    gpus = tuple(
        Gpu(
            id=GpuId(f"{name}/gpu{i}"),
            node=NodeId(name),
            index=i,
            model=scenario.gpu_model,
            nvlink_domain=f"{name}/nvlink",
        )
        for i in range(scenario.gpus_per_node)
    )
    return Node(
        id=NodeId(name),
        gpus=gpus,
        cpus=16 * scenario.gpus_per_node,
        memory_bytes=256 * GIB * scenario.gpus_per_node,
        switch=f"leaf{position // scenario.nodes_per_leaf + 1}",
    )


def _links(node: Node) -> list[Link]:
    links = [
        _link(a.id, b.id, LinkKind.NVLINK, NVLINK_BYTES_PER_S)
        for a, b in combinations(node.gpus, 2)
    ]
    return [*links, _link(node.id, node.switch, LinkKind.INFINIBAND, NODE_BYTES_PER_S)]


def _link(a: str, b: str, kind: LinkKind, bytes_per_s: float) -> Link:
    return Link(a=a, b=b, kind=kind, bytes_per_s=bytes_per_s)


class ClusterState:
    """Who sits where. A seat holds the slot number of a job, or `NOBODY`.

    `seats[OWNER]` is who holds a GPU, `seats[BORROWER]` who runs on it by a loan. A GPU is free
    when nobody holds it and it is healthy; `free` counts those by node and by model.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.ids: tuple[GpuId, ...] = tuple(gpu.id for gpu in cluster.gpus)
        self.row: dict[GpuId, int] = {gpu: row for row, gpu in enumerate(self.ids)}
        self.models: tuple[str, ...] = tuple(sorted({gpu.model.name for gpu in cluster.gpus}))
        node = {each.id: row for row, each in enumerate(cluster.nodes)}
        code = {name: row for row, name in enumerate(self.models)}
        size = len(self.ids)
        self.node: Ints = np.array([node[gpu.node] for gpu in cluster.gpus], dtype=np.int64)
        self.model: Ints = np.array([code[gpu.model.name] for gpu in cluster.gpus], dtype=np.int64)
        self.memory_bytes: Ints = np.array(
            [gpu.model.memory_bytes for gpu in cluster.gpus], np.int64
        )
        self.max_watts = np.array([gpu.model.max_watts for gpu in cluster.gpus])
        self.idle_watts = np.array([gpu.model.idle_watts for gpu in cluster.gpus])
        self.seats: Ints = np.full((2, size), NOBODY, dtype=np.int64)
        self.healthy: Bools = np.ones(size, dtype=bool)
        self.free_since_s = np.full(size, np.inf)
        self.draining: Bools = np.zeros(len(cluster.nodes), dtype=bool)
        self.node_row: dict[NodeId, int] = node
        self.free: Ints = np.zeros((len(cluster.nodes), len(self.models)), dtype=np.int64)
        np.add.at(self.free, (self.node, self.model), 1)
        self._rows_of = [np.flatnonzero(self.node == i) for i in range(len(cluster.nodes))]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def open(self) -> Ints:
        """Free GPUs by node and model, without nodes that are draining."""
        return np.where(self.draining[:, None], 0, self.free)

    def mask(self, models: Sequence[str]) -> int:
        """Return the set of models that a job may use, as bits; any when none is named."""
        return sum(1 << i for i, name in enumerate(self.models) if not models or name in models)

    def fits(self, gpus: int, mask: int) -> bool:
        """Say whether some node has that many free GPUs of one suitable model."""
        best = self.open.max(axis=0, initial=0).tolist()
        return any(free >= gpus for i, free in enumerate(best) if mask >> i & 1)

    def note_free(self, t_s: float) -> None:
        """Note since when GPUs are free, after a dispatch pass."""
        free = self.healthy & (self.seats[OWNER] == NOBODY) & ~self.draining[self.node]
        self.free_since_s[~free] = np.inf
        self.free_since_s[free & np.isinf(self.free_since_s)] = t_s

    def has_room(self, gpus: int, mask: int, *, t_s: float) -> bool:
        """Return whether some node has had that many suitable GPUs free for a minute."""
        suits = np.array([mask >> i & 1 for i in range(len(self.models))], dtype=bool)
        lasting = (t_s - self.free_since_s >= ROOM_S) & suits[self.model]
        return bool((np.bincount(self.node[lasting]) >= gpus).any())

    def place(self, gpus: int, mask: int) -> Ints:
        """Return free GPUs on the node that is filled best by them; none where they do not fit."""
        suitable = [mask >> i & 1 for i in range(len(self.models))]
        free = np.where(np.array(suitable, dtype=bool), self.open, 0)
        free = np.where(free >= gpus, free, np.iinfo(np.int64).max)
        best = int(free.argmin())
        node, model = divmod(best, len(self.models))
        if free[node, model] == np.iinfo(np.int64).max:
            return np.empty(0, dtype=np.int64)
        rows = self._rows_of[node]
        fitting = self.healthy[rows] & (self.seats[OWNER, rows] == NOBODY)
        return np.asarray(rows[fitting & (self.model[rows] == model)][:gpus])

    def take(self, rows: Ints, slot: int, seat: int) -> None:
        """Seat a job. A seat is never taken twice: that would be our own mistake."""
        if bool((self.seats[seat, rows] != NOBODY).any()):
            raise RuntimeError(f"a seat among {rows} is taken already")
        self.seats[seat, rows] = slot
        if seat == OWNER:
            self._count(rows, -1)

    def release(self, rows: Ints, seat: int) -> None:
        """Empty seats."""
        self.seats[seat, rows] = NOBODY
        if seat == OWNER:
            self._count(rows, 1)

    def promote(self, rows: Ints) -> None:
        """Make borrowers the holders of GPUs that were just released."""
        slots = self.seats[BORROWER, rows].copy()
        self.seats[BORROWER, rows] = NOBODY
        self.seats[OWNER, rows] = slots
        self._count(rows, -1)

    def set_health(self, row: int, *, healthy: bool) -> Health:
        """Say that an empty GPU broke or was mended."""
        if bool(self.healthy[row]) != healthy:
            self.healthy[row] = healthy
            if self.seats[OWNER, row] == NOBODY:
                self.free[self.node[row], self.model[row]] += 1 if healthy else -1
        return self.health_of(row)

    def health_of(self, row: int) -> Health:
        """Return the health of a GPU in the words of the model."""
        return Health.GOOD if self.healthy[row] else Health.BAD

    def _count(self, rows: Ints, change: int) -> None:
        well = rows[self.healthy[rows]]
        np.add.at(self.free, (self.node[well], self.model[well]), change)


class WaitingLine:
    """Those who wait, best first: by priority, then by number.

    Jobs that ask for the same stand in one heap, so that a pass looks at a handful of heads and
    never at thousands of waiting jobs: whoever asks for the same as a job that does not fit does
    not fit either.
    """

    def __init__(self) -> None:
        self._heaps: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._asks: dict[int, tuple[int, int]] = {}
        self._sizes: Counter[int] = Counter()
        self._left = 0

    def __len__(self) -> int:
        return len(self._asks)

    def count(self, gpus: int) -> int:
        """Return how many in line ask for that many GPUs."""
        return self._sizes[gpus]

    def join(self, number: int, *, gpus: int, mask: int, priority: int) -> None:
        """Stand in line, at the place that priority and number give."""
        self._asks[number] = (gpus, mask)
        self._sizes[gpus] += 1
        heapq.heappush(self._heaps.setdefault((gpus, mask), []), (-priority, number))

    def leave(self, number: int) -> None:
        """Step out of the line. The heap notices later, or is cleared when many have left."""
        gpus, _ = self._asks.pop(number)
        self._sizes[gpus] -= 1
        self._left += 1
        if self._left > 64 + len(self._asks):
            self._left = 0
            for ask, heap in self._heaps.items():
                heap[:] = sorted({each for each in heap if self._asks.get(each[1]) == ask})

    def first(self, fits: Callable[[int, int], bool]) -> int | None:
        """Return the number of the first job in line that fits, or None."""
        heads = [
            heap[0] for ask, heap in self._heaps.items() if self._trim(ask, heap) and fits(*ask)
        ]
        return min(heads)[1] if heads else None

    def _trim(self, ask: tuple[int, int], heap: list[tuple[int, int]]) -> bool:
        while heap and self._asks.get(heap[0][1]) != ask:
            heapq.heappop(heap)
        return bool(heap)
