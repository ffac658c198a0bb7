"""Price lists of clouds: one row for each instance type and region, GPUs or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from steward.clients.catalogs.carbon_table import Carbon
from steward.clients.catalogs.gpu_names import GpuNames
from steward.clients.catalogs.table import Imported, Row, Table
from steward.model.planning.catalog import Basis, CatalogSite, Charging, Engine, Queue, Source

__all__ = ["read_prices"]

_NEEDED = ("cloud", "instance_type", "vcpus", "mem_gib", "region", "usd_per_hour")
_AUCTIONS = frozenset({"mithril"})  # their prices are floors of auctions: nobody gets them
_MIB, _GIB = 2**20, 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class _Instance:
    name: str
    usd_per_hour: float
    spot_usd_per_hour: float | None
    cores: int
    memory_bytes: int
    gpus: int
    gpu_model: str


def read_prices(
    text: str,
    *,
    source: Source,
    names: GpuNames,
    carbon: Mapping[str, Carbon] | None = None,
    where: str,
) -> Imported:
    """Return a site for each cloud and region, with a queue for each type and for its spot price.

    Left out, and counted: auction floors, parts of a GPU, rows without a price.
    """
    table = Table.of(text, needed=_NEEDED, where=where)
    left_out: Counter[str] = Counter()
    sites: dict[str, dict[str, _Instance]] = {}
    for row in table:
        if (why := _unusable(row)) is not None:
            left_out[why] += 1
            continue
        instance = _instance(row, names)
        key = "-".join(part for part in (row.text("cloud"), row.text("region")) if part)
        known = sites.setdefault(key, {})
        name = instance.name
        if name in known and known[name].gpu_model != instance.gpu_model:
            name = f"{name} {instance.gpu_model}"
        if name not in known or instance.usd_per_hour < known[name].usd_per_hour:
            known[name] = instance
    table.finish()
    notes = [f"{count} rows left out: {why}" for why, count in sorted(left_out.items())]
    built = tuple(_site(key, known, source, carbon or {}) for key, known in sites.items())
    return Imported(sites=built, notes=(*notes, *names.note()))


def _unusable(row: Row) -> str | None:
    """Return why a row is no price that anybody pays; None where it is one."""
    if row.text("cloud") in _AUCTIONS:
        return f"floors of auctions at {row.text('cloud')}, not prices"
    if not row.amount("usd_per_hour"):
        return "no price"
    count = row.amount("acc_count")
    if count is not None and count % 1:
        return "parts of a GPU"
    if not row.text("instance_type") or not row.text("cloud"):
        row.fault("it has no cloud, or no instance type")
    return None


def _instance(row: Row, names: GpuNames) -> _Instance:
    memory_mib = row.amount("gpu_mem_mib")
    gpus = row.whole("acc_count") or 0
    memory_bytes = memory_mib * _MIB if memory_mib else None
    model = names.name(row.text("accelerator"), memory_bytes, gpus=gpus)
    return _Instance(
        name=row.text("instance_type"),
        usd_per_hour=row.amount("usd_per_hour") or 0.0,
        spot_usd_per_hour=row.amount("spot_usd_per_hour"),
        cores=int(row.amount("vcpus") or 0),
        memory_bytes=round((row.amount("mem_gib") or 0.0) * _GIB),
        gpus=gpus,
        gpu_model=model if gpus else "",
    )


def _site(
    key: str, known: Mapping[str, _Instance], source: Source, carbon: Mapping[str, Carbon]
) -> CatalogSite:
    queues = []
    for name, each in known.items():
        queues.append(_queue(name, each, each.usd_per_hour, source, spot=False))
        if each.spot_usd_per_hour:
            queues.append(_queue(f"{name}-spot", each, each.spot_usd_per_hour, source, spot=True))
    grid = carbon.get(key)
    effectiveness = grid.power_usage_effectiveness if grid is not None else None
    return CatalogSite(
        name=key,
        engine=Engine.CLOUD,
        queues=tuple(queues),
        region=key,
        grams_per_kwh=grid.grams_per_kwh if grid is not None else None,
        power_usage_effectiveness=1.4 if effectiveness is None else effectiveness,
        source=source,
    )


def _queue(name: str, each: _Instance, usd_per_hour: float, source: Source, *, spot: bool) -> Queue:
    return Queue(
        name=name,
        submit_as=each.name if each.name != name else "",
        cores_per_node=each.cores,
        memory_bytes_per_node=each.memory_bytes,
        gpus_per_node=each.gpus,
        gpu_model=each.gpu_model,
        shared_nodes=False,
        interruptible=spot,
        charging=Charging(basis=Basis.NODE_S, rate=usd_per_hour),
        source=source,
    )
