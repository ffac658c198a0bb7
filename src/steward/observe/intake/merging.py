"""Makes one observation of many: tables with the same columns become one frame."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from steward.errors import StewardError
from steward.model.cluster import Cluster, Link, Node, Switch
from steward.model.event import Event, Observation
from steward.model.frame import Frame, empty_other
from steward.model.identity import NodeId, TenantId
from steward.model.job import Tenant
from steward.observe.agent.parcel import Parcel
from steward.observe.agent.table_codec import PackedTable, frame_of
from steward.observe.receive import Readings, observation_of

__all__ = ["Merging", "Seen"]

Seen = Observation | Parcel | Readings  # what one body held


class Merging:
    """Collects observations until they are taken. Remembers the cluster that all have told."""

    def __init__(self) -> None:
        self._columns: dict[tuple[str, ...], list[PackedTable]] = {}
        self._frames: dict[tuple[str, ...], list[Frame]] = {}
        self._readings: list[Readings] = []
        self._rest: list[Observation] = []
        self._cluster = _Sum()
        self._tenants: dict[TenantId, Tenant] = {}

    def add(self, seen: Seen) -> None:
        """Take one more."""
        if isinstance(seen, Parcel):
            for table in seen.tables:
                self._columns.setdefault(table.names, []).append(table)
            self._rest.append(seen.rest)
            return
        if isinstance(seen, Readings):
            self._readings.append(seen)
            return
        for frame in seen.tables:
            self._frames.setdefault(tuple(frame.columns), []).append(frame)
        self._rest.append(seen)

    def taken(self, events: Sequence[Event], t_s: float) -> Observation:
        """Return all of it as one and begin anew."""
        readings, self._readings = self._readings, []
        if readings:
            self.add(observation_of(readings))
        rest, self._rest = self._rest, []
        columns, self._columns = self._columns, {}
        frames, self._frames = self._frames, {}
        others = [each.other for each in rest if each.other.height]
        cluster, refused = self._cluster.with_all(rest, t_s)
        return Observation(
            frames=(
                *(frame_of(alike) for alike in columns.values()),
                *(pl.concat(alike) for alike in frames.values()),
            ),
            other=pl.concat(others) if others else empty_other(),
            events=(*events, *(event for each in rest for event in each.events), *refused),
            lines=tuple(line for each in rest for line in each.lines),
            spans=tuple(span for each in rest for span in each.spans),
            jobs=tuple(job for each in rest for job in each.jobs),
            cluster=cluster,
            tenants=self._with_tenants(rest),
            health={gpu: health for each in rest for gpu, health in each.health.items()},
            draining={node: now for each in rest for node, now in each.draining.items()},
        )

    def _with_tenants(self, told: Sequence[Observation]) -> tuple[Tenant, ...] | None:
        """Return all tenants that anybody has named, if there are new ones.

        Who only names one does not take away what another has said about it.
        """
        before = dict(self._tenants)
        for tenant in (tenant for each in told for tenant in each.tenants or ()):
            if tenant != Tenant(id=tenant.id) or tenant.id not in self._tenants:
                self._tenants[tenant.id] = tenant
        return tuple(self._tenants.values()) if self._tenants != before else None


class _Sum:
    """The cluster as many have told it, each its own part. A part that does not fit is refused."""

    def __init__(self) -> None:
        self._whole = Cluster(id="agents")

    def with_all(
        self, told: Sequence[Observation], t_s: float
    ) -> tuple[Cluster | None, list[Event]]:
        """Add what was told; return the whole if that has changed it, and what was refused."""
        before = self._whole
        parts = [each.cluster for each in told if each.cluster is not None]
        refused: list[Event] = []
        try:
            self._whole = _joined((self._whole, *parts))
        except StewardError:
            refused = self._one_by_one(parts, t_s)
        return (self._whole if self._whole != before else None), refused

    def _one_by_one(self, parts: Sequence[Cluster], t_s: float) -> list[Event]:
        refused = []
        for part in parts:
            try:
                self._whole = _joined((self._whole, part))
            except StewardError as fault:
                text = f"what was told about it does not fit to the rest: {fault}"
                refused.append(
                    Event(
                        t_s=t_s,
                        kind="cluster.refused",
                        subject=part.id,
                        text=text,
                        source="intake",
                    )
                )
        return refused


def _joined(parts: Sequence[Cluster]) -> Cluster:
    nodes: dict[NodeId, Node] = {}
    links: dict[tuple[str, str], Link] = {}
    switches: dict[str, Switch] = {}
    for part in parts:
        nodes.update({each.id: each for each in part.nodes})
        links.update({(each.a, each.b): each for each in part.links})
        switches.update({each.id: each for each in part.switches})
    return Cluster(
        id=parts[0].id,
        nodes=tuple(nodes.values()),
        links=tuple(links.values()),
        switches=tuple(switches.values()),
    )
