"""Nodes of a Slurm: the cluster that they are, what happens to them, and what their GPUs are worth.

Slurm knows nodes, not the health of GPUs: `docs/decisions/0036-slurm-nodes-that-are-up.md`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from steward.clients.slurm import SlurmNode
from steward.clients.slurm.syntax import whole_gpus
from steward.model.cluster import Cluster, Gpu, GpuModel, Health, Node
from steward.model.event import Event
from steward.model.identity import GpuId, NodeId

__all__ = ["SlurmNodes"]

_OUR_DRAIN = "steward "  # how the reasons of drains by steward begin
# NOT_RESPONDING alone is no end: a node that was resumed has it for a moment, and goes DOWN later.
_GONE = frozenset({"DOWN", "ERROR", "FAIL"})
_LEAVING = frozenset({"DRAIN", "DRAINED", "DRAINING", "FAILING", "MAINT"})


class SlurmNodes:
    """The nodes of the last look. `up_is_healthy`: see the collector."""

    def __init__(self, source: str, models: Mapping[str, str], *, up_is_healthy: bool) -> None:
        self.cluster: Cluster | None = None
        self._source = source
        self._models = models
        self._up_is_healthy = up_is_healthy
        self._nodes: dict[str, SlurmNode] = {}

    def fold(
        self, nodes: Sequence[SlurmNode], t_s: float, *, stale: bool
    ) -> tuple[list[Event], dict[GpuId, Health]]:
        """Take in a look; return what happened to nodes, and what is new about their GPUs.

        `stale`: all of them were unknown before it.
        """
        events, health = self._events(nodes, t_s), self._health(nodes, stale=stale)
        self._nodes = {node.name: node for node in nodes}
        return events, health

    def changed_cluster(self, names: Iterable[str]) -> Cluster | None:
        """Return the cluster if it changed. `names` are what jobs call it."""
        known = self.cluster.id if self.cluster else "slurm"
        cluster = Cluster(
            id=min({*names} - {""}, default=known),
            nodes=tuple(self._node(each) for _, each in sorted(self._nodes.items())),
        )
        if cluster == self.cluster:
            return None
        self.cluster = cluster
        return cluster

    @property
    def gpus(self) -> dict[str, int]:
        """How many whole GPUs each node has."""
        return {name: self.gpus_on((name,)) for name in self._nodes}

    def draining(self, reserved: Collection[str]) -> dict[NodeId, bool]:
        """Return of each node whether nothing new may start there."""
        return {
            NodeId(name): _condition(each) != "up" or name in reserved
            for name, each in self._nodes.items()
        }

    def gpus_on(self, names: Iterable[str]) -> int:
        """Return how many whole GPUs these nodes have together."""
        known = [self._nodes[name] for name in names if name in self._nodes]
        return sum(each.count for node in known for each in whole_gpus(node.gres))

    def _events(self, nodes: Sequence[SlurmNode], t_s: float) -> list[Event]:
        found = []
        for node in nodes:
            before = self._nodes.get(node.name)
            was, now = _condition(before), _condition(node)
            same_reason = before is not None and before.reason == node.reason
            if was == now and (same_reason or now == "up"):
                continue
            kind = {"up": "node.resumed", "down": "node.down", "leaving": "node.drained"}[now]
            when_s = t_s if now == "up" or node.reason_s is None else node.reason_s
            text = node.reason or " ".join(node.states).lower()
            found.append(
                Event(t_s=when_s, kind=kind, subject=node.name, text=text, source=self._source)
            )
        return found

    def _health(self, nodes: Sequence[SlurmNode], *, stale: bool) -> dict[GpuId, Health]:
        """Return what is new: a node that came back is unknown until its next sample.

        Where Slurm's word is all there is, it is passed on at each poll: without samples, what was
        reported once would be stale.
        """
        up = Health.GOOD if self._up_is_healthy else Health.UNKNOWN
        states = {"up": up, "down": Health.BAD, "leaving": Health.WORN}
        return {
            GpuId(f"{node.name}/gpu{index}"): states[_gpu_condition(node)]
            for node in nodes
            if stale
            or self._up_is_healthy
            or _gpu_condition(self._nodes.get(node.name)) != _gpu_condition(node)
            for index in range(sum(each.count for each in whole_gpus(node.gres)))
        }

    def _node(self, node: SlurmNode) -> Node:
        types = [each.type for each in whole_gpus(node.gres) for _ in range(each.count)]
        name = NodeId(node.name)
        gpus = tuple(
            Gpu(id=GpuId(f"{name}/gpu{index}"), node=name, index=index, model=self._model(type_))
            for index, type_ in enumerate(types)
        )
        return Node(id=name, gpus=gpus, cpus=node.cpus, memory_bytes=node.memory_bytes)

    def _model(self, type_: str) -> GpuModel:
        """Return a model of that name; memory and watts come from the driver."""
        name = self._models.get(type_, type_ or "gpu")
        return GpuModel(
            name=name, generation="unknown", memory_bytes=0, idle_watts=0.0, max_watts=0.0
        )


def _condition(node: SlurmNode | None) -> str:
    if node is None:
        return "up"
    if not _GONE.isdisjoint(node.states):
        return "down"
    return "up" if _LEAVING.isdisjoint(node.states) else "leaving"


def _gpu_condition(node: SlurmNode | None) -> str:
    """Return what a node's state says about its GPUs: a drain by steward says nothing new.

    If it did, the drain itself would keep the node from ever being found well again.
    """
    condition = _condition(node)
    ours = node is not None and node.reason.startswith(_OUR_DRAIN)
    return "up" if condition == "leaving" and ours else condition
