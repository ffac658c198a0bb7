"""A table of batch queues of HPC sites, with the rule that each is charged by."""

from __future__ import annotations

import re

from steward.clients.catalogs.gpu_names import GpuNames
from steward.clients.catalogs.table import Imported, Row, Table
from steward.errors import StewardError
from steward.model.planning.catalog import Basis, CatalogSite, Charging, Engine, Queue, Source

__all__ = ["read_sites"]

_NEEDED = ("site", "cluster", "queue", "min_nodes", "max_nodes", "max_hours", "cores_per_node",
           "gpus_per_node", "gpu", "mem_gb_per_node", "node_sharing", "charge_unit", "charge_rate",
           "charge_basis")  # fmt: skip
_CORES = re.compile(r"max\(cores, mem/(?:(?P<gb>[\d.]+) ?GB|default)\)")
_GPUS = re.compile(r"GPU-hour.*?(?P<cores>\d+) cores or (?P<gb>[\d./]+) GB per GPU")
_BASES = "known: node-hour, max(cores, mem/2GB)-hour, GPU-hour (16 cores or 62.5 GB per GPU)"


def read_sites(
    text: str, *, source: Source, names: GpuNames, gpu_rate: float | None = None, where: str
) -> Imported:
    """Return a site for each cluster, such as `tacc-vista`.

    `gpu_rate` is the price of a GPU-hour where a rule has one beside that of cores.
    """
    table = Table.of(text, needed=_NEEDED, where=where)
    sites: dict[str, dict[str, Queue]] = {}
    unpriced = []
    for row in table:
        key = f"{row.text('site')}-{row.text('cluster')}".lower()
        queue = _queue(row, source, names, gpu_rate)
        if queue is None:
            continue
        if queue.name in sites.setdefault(key, {}):
            row.fault(f"a second row for '{key}/{queue.name}'")
        sites[key][queue.name] = queue
        if gpu_rate is None and queue.gpus_per_node and queue.charging.basis is Basis.CORE_S:
            unpriced.append(f"{key}/{queue.name}")
    table.finish()
    note = f"the table has no rate for GPUs of {', '.join(unpriced)}: give it by --gpu-rate"
    built = (
        CatalogSite(
            name=key,
            engine=Engine.SLURM,
            queues=tuple(queues.values()),
            source=Source(
                text=source.text, as_of=max(each.source.as_of for each in queues.values())
            ),
        )
        for key, queues in sites.items()
    )
    return Imported(sites=tuple(built), notes=(*((note,) if unpriced else ()), *names.note()))


def _queue(row: Row, source: Source, names: GpuNames, gpu_rate: float | None) -> Queue | None:
    hours, gigabytes = row.amount("max_hours"), row.amount("mem_gb_per_node")
    gpus = row.whole("gpus_per_node") or 0
    charging = _charging(row, gpu_rate)
    if charging is None:
        return None
    try:
        return Queue(
            name=row.text("queue"),
            cores_per_node=row.whole("cores_per_node") or 0,
            memory_bytes_per_node=round((gigabytes or 0.0) * 1e9),
            gpus_per_node=gpus,
            gpu_model=names.name(row.text("gpu")) if gpus else "",
            min_nodes=row.whole("min_nodes") or 1,
            max_nodes=row.whole("max_nodes"),
            max_s=None if hours is None else hours * 3600.0,
            shared_nodes=row.text("node_sharing").startswith("yes"),
            interruptible="preempt" in row.text("queue"),
            charging=charging,
            source=_source(row, source),
        )
    except StewardError as fault:
        row.fault(fault.problem)
        return None


def _charging(row: Row, gpu_rate: float | None) -> Charging | None:
    rule, unit = row.text("charge_basis"), row.text("charge_unit") or "USD"
    rate = row.amount("charge_rate") or 0.0
    usd = 1.0 if unit == "USD" else None
    several = "multi-node jobs: whole nodes" in row.text("node_sharing")
    if rule.startswith("node-hour"):
        return Charging(basis=Basis.NODE_S, rate=rate, unit=unit, usd_per_unit=usd)
    if found := _CORES.match(rule):
        return Charging(
            basis=Basis.CORE_S,
            rate=rate,
            gpu_rate=(gpu_rate or 0.0) if "GPU-hour" in rule else 0.0,
            unit=unit,
            usd_per_unit=usd,
            memory_per_core_bytes=_memory_per_core(row, found["gb"]),
            whole_nodes_if_several=several,
        )
    if found := _GPUS.match(rule):
        return Charging(
            basis=Basis.GPU_S,
            rate=rate,
            unit=unit,
            usd_per_unit=usd,
            cores_per_gpu=int(found["cores"]),
            memory_per_gpu_bytes=_memory_per_gpu(row, found["gb"]),
        )
    row.fault(f"charge_basis is '{rule[:60]}'; {_BASES}")
    return None


def _memory_per_core(row: Row, gigabytes: str | None) -> int:
    """Return what the rule says, or the memory of a node divided among its cores."""
    if gigabytes is not None:
        return round(float(gigabytes) * 1e9)
    memory, cores = row.amount("mem_gb_per_node"), row.whole("cores_per_node")
    return int(memory * 1e9 / cores) if memory and cores else 0


def _memory_per_gpu(row: Row, choices: str) -> int:
    """Return the share that fits the node, of those that the rule names; 0: unknown."""
    memory, gpus = row.amount("mem_gb_per_node"), row.whole("gpus_per_node")
    if not memory or not gpus:
        return 0
    shares = [float(each) for each in choices.split("/")]
    return round(min(shares, key=lambda share: abs(share - memory / gpus)) * 1e9)


def _source(row: Row, source: Source) -> Source:
    try:
        return Source(
            text=row.text("source") or source.text, as_of=row.text("as_of") or source.as_of
        )
    except StewardError as fault:
        row.fault(f"as_of: {fault.problem}")
        return source
