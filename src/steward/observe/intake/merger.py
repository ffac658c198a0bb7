"""Makes one observation of the bodies that were accepted: tables with equal columns become one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import polars as pl

from steward.errors import StewardError
from steward.model.cluster import Cluster
from steward.model.event import Event, Observation
from steward.model.frame import ENTITY, T_S, Frame
from steward.model.identity import TenantId
from steward.model.job import Tenant
from steward.observe.agent.parcel import Parcel
from steward.observe.agent.table_codec import PackedTable, frame_of
from steward.observe.merge import merge_clusters, merge_observations, merge_tables
from steward.observe.receive import PushedLines, PushedSamples, Readings, observation_of

__all__ = ["Decoded", "ObservationMerger", "ReadStored", "without_stored"]

Decoded = Observation | Parcel | PushedSamples | PushedLines  # what one body held
ReadStored = Callable[[Sequence[str], float, float], Frame]  # metrics, from and to which time
_WINDOW_S = 600.0
_WINDOW, _IS_STORED = "\0window", "\0stored"  # no metric is called that


class ObservationMerger:
    """Collects decoded bodies until they are fetched; remembers the cluster and its tenants.

    Counters move when a body is added, so each body is added once, in the order of its number.
    """

    def __init__(self) -> None:
        self._packed: dict[tuple[str, ...], list[PackedTable]] = {}
        self._readings: list[Readings] = []
        self._rest: list[Observation] = []
        self._cluster = _MergedCluster()
        self._tenants: dict[TenantId, Tenant] = {}

    def add(self, decoded: Decoded) -> None:
        """Add what one body held."""
        match decoded:
            case Parcel():
                for table in decoded.tables:
                    self._packed.setdefault(table.names, []).append(table)
                self._rest.append(decoded.rest)
            case PushedSamples():
                self._readings.append(decoded.convert())
            case PushedLines():
                self._rest.append(Observation(lines=decoded.lines, events=decoded.events))
            case _:
                self._rest.append(decoded)

    def fetch(self, events: Sequence[Event], t_s: float) -> Observation:
        """Return all that was added since the last time, as one."""
        rest, self._rest = self._rest, []
        packed, self._packed = self._packed, {}
        readings, self._readings = self._readings, []
        if readings:
            rest.append(observation_of(readings))
        merged = merge_observations(rest, events=events)
        cluster, refused = self._cluster.add(rest, t_s)
        unpacked = (frame_of(group) for group in packed.values())
        return replace(
            merged,
            frames=(*unpacked, *merge_tables(merged.frames)),
            events=(*merged.events, *refused),
            cluster=cluster,
            tenants=self._with_tenants(rest),
        )

    def _with_tenants(self, seen: Sequence[Observation]) -> tuple[Tenant, ...] | None:
        """Return all tenants that were ever named, if there are new ones.

        One that is only named does not replace what another source has of it.
        """
        before = dict(self._tenants)
        for tenant in (tenant for each in seen for tenant in each.tenants or ()):
            if tenant != Tenant(id=tenant.id) or tenant.id not in self._tenants:
                self._tenants[tenant.id] = tenant
        return tuple(self._tenants.values()) if self._tenants != before else None


class _MergedCluster:
    """The cluster of all agents, each with its own part. A part that does not fit is refused."""

    def __init__(self) -> None:
        self._whole = Cluster(id="agents")

    def add(self, seen: Sequence[Observation], t_s: float) -> tuple[Cluster | None, list[Event]]:
        """Add parts; return the whole if that has changed it, and what was refused."""
        before = self._whole
        parts = [each.cluster for each in seen if each.cluster is not None]
        refused: list[Event] = []
        try:
            self._whole = _with(self._whole, *parts)
        except StewardError:
            refused = self._one_by_one(parts, t_s)
        return (self._whole if self._whole != before else None), refused

    def _one_by_one(self, parts: Sequence[Cluster], t_s: float) -> list[Event]:
        refused = []
        for part in parts:
            try:
                self._whole = _with(self._whole, part)
            except StewardError as fault:
                text = f"its description contradicts the rest of the cluster: {fault}"
                kind = "cluster.refused"
                refused.append(
                    Event(t_s=t_s, kind=kind, subject=part.id, text=text, source="intake")
                )
        return refused


def _with(whole: Cluster, *parts: Cluster) -> Cluster:
    return merge_clusters((whole, *parts), id_=whole.id)


def without_stored(tables: Sequence[Frame], read: ReadStored) -> tuple[Frame, ...]:
    """Return tables without the values that the store has already, after a crash.

    Bodies that come from disk again may be cut into rows otherwise than before: one moment of a
    node in two bodies was two rows and is one now. So values are compared, not rows.
    """
    window = (pl.col(T_S) // _WINDOW_S).alias(_WINDOW)
    return merge_tables(
        _without_stored(part, read)
        for table in tables
        for part in table.with_columns(window).partition_by(_WINDOW, include_key=False)
    )


def _without_stored(table: Frame, read: ReadStored) -> Frame:
    names = [name for name in table.columns if name not in (T_S, ENTITY)]
    times = table[T_S]
    stored = read(names, float(times.min()), float(times.max()))  # type: ignore[arg-type]
    known = [name for name in names if name in stored.columns]
    if not stored.height or not known:
        return table
    found = stored.group_by(T_S, ENTITY).agg(
        pl.col(name).is_not_null().any().alias(f"{_IS_STORED}{name}") for name in known
    )
    joined = table.join(found, on=[T_S, ENTITY], how="left", maintain_order="left")
    left = joined.with_columns(
        pl.when(pl.col(f"{_IS_STORED}{name}").fill_null(value=False)).then(None)
        .otherwise(pl.col(name)).alias(name)
        for name in known
    )  # fmt: skip
    return left.filter(pl.any_horizontal(pl.col(names).is_not_null())).select(table.columns)
