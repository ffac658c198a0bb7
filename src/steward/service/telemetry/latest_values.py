"""The newest values of every node and of all that is below it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from steward.loop import Loop
from steward.model.cluster_snapshot import ClusterSnapshot, GpuRow, NodeRow
from steward.model.frame import steps_of
from steward.model.view import ClusterView

__all__ = ["CollectorState", "LatestValues", "NodeSummary", "node_of"]

Values = Mapping[str, float]
NOTHING: Values = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSummary:
    """One node now. `parts` are the entities below it with their newest values; GPUs too."""

    id: str
    gpus: tuple[GpuRow, ...]
    values: Values
    parts: Mapping[str, Values]
    running: tuple[str, ...] = ()  # jobs that run here, as reported by their engine or collector
    draining: bool = False  # nothing new may start here

    @property
    def jobs(self) -> tuple[str, ...]:
        """Jobs that hold or borrow a GPU here, run here, or whose processes were seen here."""
        held = [job for gpu in self.gpus for job in (gpu.owner, gpu.borrower) if job]
        seen = [part.partition("@")[2] for part in self.parts if "@" in part]
        return tuple(dict.fromkeys((*held, *self.running, *seen)))

    @property
    def busy_share(self) -> float | None:
        """Mean utilisation of its GPUs that report it."""
        known = [gpu.busy_share for gpu in self.gpus if gpu.busy_share is not None]
        return sum(known) / len(known) if known else None

    def of_kind(self, kind: str) -> dict[str, Values]:
        """Return the parts of one kind: `gpu`, `disk`, `net`, `ib`, ..."""
        return {name: each for name, each in self.parts.items() if _kind(name) == kind}


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorState:
    """How one of this steward's own collectors is doing. Ticks are None where it has none."""

    name: str
    ticks: int | None
    missed: int | None
    failed: int | None
    fault: str
    missing: str = ""  # why it has nothing to read here


class LatestValues:
    """Newest values of the loop; computed once per turn, on the first read."""

    def __init__(self, loop: Loop[ClusterView], *, stale_after_s: float) -> None:
        self._loop = loop
        self._stale_after_s = stale_after_s
        self._lock = threading.Lock()
        self._turn = -1
        self._by_node: Mapping[str, Mapping[str, Values]] = {}

    def nodes(self, shown: ClusterSnapshot) -> tuple[NodeSummary, ...]:
        """Return every node that is known or that samples came from, by the cluster's order."""
        seen = self._seen()
        rows = {node.id: node for node in shown.nodes}
        names = dict.fromkeys((*rows, *sorted(seen)))
        running = _running(shown)
        return tuple(
            self._state(name, rows.get(name), seen.get(name, {}), running.get(name, ()))
            for name in names
        )

    def node(self, shown: ClusterSnapshot, name: str) -> NodeSummary | None:
        """Return one node, or None if it is unknown."""
        seen = self._seen()
        row = next((node for node in shown.nodes if node.id == name), None)
        if row is None and name not in seen:
            return None
        running = _running(shown).get(name, ())
        return self._state(name, row, seen.get(name, {}), running)

    def of(self, entity: str) -> Values:
        """Return the newest values of one entity."""
        return self._seen().get(node_of(entity), {}).get(entity, NOTHING)

    def collectors(self) -> tuple[CollectorState, ...]:
        """Return the state of this steward's own collectors."""
        watch, status = self._loop.stages.watch, self._loop.status
        pace, missing = watch.pace, watch.missing
        faults = {f.where: f.problem for f in status.faults if f.t_s >= status.t_s}
        return tuple(
            CollectorState(
                name=name,
                ticks=pace[name].ticks if name in pace else None,
                missed=pace[name].missed if name in pace else None,
                failed=pace[name].failed if name in pace else None,
                fault=faults.get(f"collector {name}", ""),
                missing=missing.get(name, ""),
            )
            for name in watch.names
        )

    def _state(
        self,
        name: str,
        row: NodeRow | None,  # None: only its samples are known
        seen: Mapping[str, Values],
        running: Sequence[str],
    ) -> NodeSummary:
        return NodeSummary(
            id=name,
            gpus=row.gpus if row else (),
            values=seen.get(name, NOTHING),
            parts={entity: each for entity, each in seen.items() if entity != name},
            running=tuple(running),
            draining=row is not None and row.draining,
        )

    def _seen(self) -> Mapping[str, Mapping[str, Values]]:
        with self._lock:
            turn = self._loop.status.turns
            if turn != self._turn:
                self._turn, self._by_node = turn, self._read()
            return self._by_node

    def _read(self) -> dict[str, dict[str, dict[str, float]]]:
        found: dict[str, dict[str, dict[str, float]]] = {}
        since_s = self._loop.view.t_s - self._stale_after_s
        for column in self._loop.latest.columns(since_s=since_s):
            name = column.metric.name
            for entity, value in zip(column.entities, column.values.tolist(), strict=True):
                node = node_of(entity)
                if node:
                    found.setdefault(node, {}).setdefault(entity, {})[name] = value
        return found


def _running(shown: ClusterSnapshot) -> dict[str, list[str]]:
    """Return the jobs that run on each node."""
    found: dict[str, list[str]] = {}
    for job in shown.running:
        for node in job.nodes:
            found.setdefault(node, []).append(job.id)
    return found


def node_of(entity: str) -> str:
    """Return the node that an entity is on; nothing for a job as a whole.

    >>> node_of("n01/gpu3"), node_of("n01@812"), node_of("job:812")
    ('n01', 'n01', '')
    """
    if entity.startswith("job:"):
        return ""
    return entity.partition("@")[0].partition("/")[0]


def _kind(entity: str) -> str:
    """Return the type of a part; a job's part of something has none.

    >>> _kind("n01/gpu3"), _kind("n01/fs:/var/lib"), _kind("n01/gpu3@812")
    ('gpu', 'fs', '')
    """
    _, *parts = steps_of(entity)
    if "@" in entity or not parts:
        return ""
    return parts[-1].partition(":")[0].rstrip("0123456789")
