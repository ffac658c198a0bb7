"""Partitions and nodes of Slurm as queues of a site, from what its commands print.

`scontrol show partition` and `scontrol show node` (in lines, `-o`, or JSON), and `sinfo --json` of
22.05, which has nodes alone, and of later versions.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from steward.clients.job_directives import seconds
from steward.clients.slurm.nodes import MIB, SlurmNode, node_from_json
from steward.clients.slurm.syntax import (
    gpu_count,
    gres,
    hosts,
    mebibytes,
    number,
    tres,
    upper_names,
    whole_gpus,
    whole_number,
)
from steward.errors import StewardError
from steward.model.planning.catalog import Basis, Charging, Queue, Source

__all__ = ["SlurmSite", "read_slurm_site"]

_HINT = "give it what `scontrol show partition` and `scontrol show node` print, or their --json"
_FIELD = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z0-9_/:.-]*)=(\S*)")
_FREE_TEXT = re.compile(r"\s(?:Reason|Comment|Extra|OS)=.*$")
_CLOSED = ("DOWN", "INACTIVE")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Partition:
    name: str
    hosts: frozenset[str]
    total_nodes: int
    cores: int  # of all its nodes
    resources: Mapping[str, str]
    weights: Mapping[str, str]
    min_nodes: int
    max_nodes: int | None
    max_s: float | None
    most_memory_bytes: int  # of a job on one node; 0: no limit
    exclusive: bool
    closed: bool
    preempts: bool  # jobs in it can be stopped for others
    tier: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    cores: int
    memory_bytes: int
    gpus: int
    gpu_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSite:
    """Queues, with GPUs called as Slurm calls them, and what could not be told."""

    queues: tuple[Queue, ...]
    notes: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class _Found:
    partitions: dict[str, _Partition] = field(default_factory=dict)
    nodes: dict[str, SlurmNode] = field(default_factory=dict)
    members: dict[str, set[str]] = field(default_factory=dict)  # partition -> nodes, as they say


def read_slurm_site(texts: Sequence[str], *, source: Source, where: str) -> SlurmSite:
    """Return the queues of what one or several commands printed."""
    found = _Found()
    for text in texts:
        if text.lstrip().startswith("{"):
            _read_json(text, found, where)
        else:
            _read_lines(text, found)
    if not found.partitions and not found.nodes:
        raise StewardError("there is no partition and no node in it", where=where, hint=_HINT)
    notes: list[str] = []
    if not found.partitions:
        notes.append("limits of partitions are not in it: add `scontrol show partition`")
        found.partitions = {name: _bare(name) for name in sorted(found.members)}
    queues: list[Queue] = []
    for partition in found.partitions.values():
        if partition.closed:
            notes.append(f"partition {partition.name} is closed: left out")
        else:
            queues += _queues(partition, found, source, notes)
    if any(queue.charging.basis is Basis.FREE for queue in queues):
        notes.append("what it costs is not in it: write `charging` where it is not free")
    return SlurmSite(queues=tuple(queues), notes=tuple(notes))


def _bare(name: str) -> _Partition:
    return _Partition(
        name=name, hosts=frozenset(), total_nodes=0, cores=0, resources={}, weights={}, min_nodes=1,
        max_nodes=None, max_s=None, most_memory_bytes=0, exclusive=False, closed=False,
        preempts=False, tier=0,
    )  # fmt: skip


# -- lines -----------------------------------------------------------------------------------------


def _read_lines(text: str, found: _Found) -> None:
    for kind, record in _records(text):
        if kind == "PartitionName":
            partition = _partition_from_lines(record)
            found.partitions[partition.name] = partition
        else:
            node = _node_from_lines(record)
            _add_node(found, node, record.get("Partitions", "").split(","))


def _records(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each record, in one line or several, with its fields; the first of a name counts."""
    for part in re.split(r"^(?=(?:PartitionName|NodeName)=)", text, flags=re.MULTILINE):
        kind = part.partition("=")[0].strip()
        if kind not in ("PartitionName", "NodeName"):
            continue
        fields: dict[str, str] = {}
        for line in part.splitlines():
            for name, value in _FIELD.findall(_without_free_text(line)):
                fields.setdefault(name, "" if value in ("(null)", "N/A") else value)
        yield kind, fields


def _without_free_text(line: str) -> str:
    """Cut what people wrote; the name of the operating system has words, and fields after it."""
    operating_system = re.sub(r"(\sOS=)[^=]*(?=\s[A-Z]\w*=)", r"\1", line)
    return _FREE_TEXT.sub("", operating_system.replace(" OS=", " Os="))


def _partition_from_lines(record: Mapping[str, str]) -> _Partition:
    name = record["PartitionName"]
    return _Partition(
        name=name,
        hosts=frozenset(hosts(record.get("Nodes", ""))),
        total_nodes=whole_number(record.get("TotalNodes", "")),
        cores=whole_number(record.get("TotalCPUs", "")),
        resources=tres(record.get("TRES", "")),
        weights=tres(record.get("TRESBillingWeights", "")),
        min_nodes=max(1, whole_number(record.get("MinNodes", ""))),
        max_nodes=whole_number(record.get("MaxNodes", "")) or None,
        max_s=seconds(record.get("MaxTime", ""), f"MaxTime of partition {name}"),
        most_memory_bytes=whole_number(record.get("MaxMemPerNode", "")) * MIB,
        exclusive=record.get("OverSubscribe", "").startswith("EXCLUSIVE"),
        closed=record.get("State", "UP").startswith(_CLOSED),
        preempts=not record.get("PreemptMode", "OFF").startswith("OFF"),
        tier=whole_number(record.get("PriorityTier", "")),
    )


def _node_from_lines(record: Mapping[str, str]) -> SlurmNode:
    return SlurmNode(
        name=record["NodeName"],
        states=tuple(record.get("State", "").upper().split("+")),
        reason="",
        reason_s=None,
        cpus=whole_number(record.get("CPUTot", "")),
        memory_bytes=whole_number(record.get("RealMemory", "")) * MIB,
        gres=gres(record.get("Gres", "")),
    )


# -- JSON ------------------------------------------------------------------------------------------


def _read_json(text: str, found: _Found, where: str) -> None:
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise StewardError(f"this is no JSON: {fault}", where=where, hint=_HINT) from None
    for raw in _maps(answer, "partitions"):
        _add_partition(found, raw)
    for raw in _maps(answer, "nodes"):
        node = node_from_json(raw)
        listed = raw.get("partitions")
        if node is not None:
            _add_node(found, node, listed if isinstance(listed, list) else [])
    for raw in _maps(answer, "sinfo"):
        _read_sinfo(raw, found)


def _add_partition(found: _Found, raw: Mapping[str, Any]) -> None:
    partition = _partition_from_json(raw)
    if partition is not None:
        found.partitions[partition.name] = partition


def _read_sinfo(raw: Mapping[str, Any], found: _Found) -> None:
    """Read one row of later versions: nodes of one partition and state that are alike."""
    partition = _map(raw, "partition")
    _add_partition(found, partition)
    names = _map(raw, "nodes").get("nodes")
    resources = _map(raw, "gres").get("total")
    for name in names if isinstance(names, list) else []:
        node = SlurmNode(
            name=str(name),
            states=upper_names(_map(raw, "node").get("state")),
            reason="",
            reason_s=None,
            cpus=int(number(_map(raw, "cpus").get("minimum")) or 0),
            memory_bytes=int((number(_map(raw, "memory").get("minimum")) or 0.0) * MIB),
            gres=gres(resources if isinstance(resources, str) else ""),
        )
        _add_node(found, node, [partition.get("name")])


def _partition_from_json(raw: Mapping[str, Any]) -> _Partition | None:
    name = raw.get("name")
    if not isinstance(name, str) or not name:
        return None
    nodes, most, least = _map(raw, "nodes"), _map(raw, "maximums"), _map(raw, "minimums")
    minutes, shares = number(most.get("time")), _map(most, "oversubscribe").get("jobs")
    memory = number(most.get("partition_memory_per_node"))
    most_nodes = number(most.get("nodes"))
    tresses, state = _map(raw, "tres"), upper_names(_map(raw, "partition").get("state"))
    modes = upper_names(raw.get("preempt_mode"))
    return _Partition(
        name=name,
        hosts=frozenset(hosts(_text(nodes, "configured"))),
        total_nodes=int(number(nodes.get("total")) or 0),
        cores=int(number(_map(raw, "cpus").get("total")) or 0),
        resources=tres(_text(tresses, "configured")),
        weights=tres(_text(tresses, "billing_weights")),
        min_nodes=max(1, int(number(least.get("nodes")) or 0)),
        max_nodes=int(most_nodes) if most_nodes else None,
        max_s=minutes * 60.0 if minutes else None,
        most_memory_bytes=int((memory or 0.0) * MIB),
        exclusive=shares == 0,
        closed=any(each in _CLOSED for each in state),
        preempts=bool(modes) and "OFF" not in modes,
        tier=int(number(_map(raw, "priority").get("tier")) or 0),
    )


def _map(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = raw.get(name)
    return value if isinstance(value, dict) else {}


def _maps(answer: object, name: str) -> list[Mapping[str, Any]]:
    value = answer.get(name) if isinstance(answer, dict) else None
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(raw: Mapping[str, Any], name: str) -> str:
    value = raw.get(name)
    return value if isinstance(value, str) else ""


def _add_node(found: _Found, node: SlurmNode, partitions: Iterable[object]) -> None:
    if "FUTURE" in node.states:
        return
    found.nodes[node.name] = node
    for name in partitions:
        if isinstance(name, str) and name:
            found.members.setdefault(name, set()).add(node.name)


# -- queues ----------------------------------------------------------------------------------------


def _queues(
    partition: _Partition, found: _Found, source: Source, notes: list[str]
) -> Iterator[Queue]:
    """Yield a queue for each shape of node in a partition; most have one."""
    names = partition.hosts | found.members.get(partition.name, set())
    shapes = Counter(_shape(found.nodes[name]) for name in sorted(names) if name in found.nodes)
    if not shapes and (mean := _mean_shape(partition)) is not None:
        shapes[mean] = partition.total_nodes
        notes.append(f"nodes of {partition.name} are not in it: each is taken to be as their mean")
    if not shapes:
        notes.append(f"partition {partition.name} has no node that is known: left out")
    for shape, count in shapes.most_common():
        if count < partition.min_nodes:
            notes.append(f"{partition.name} has {count} nodes of a kind, fewer than a job's least")
            continue
        name = partition.name if len(shapes) == 1 else f"{partition.name}:{_called(shape)}"
        yield _queue(name, partition, shape, count, source, interruptible=_yields(partition, found))


def _shape(node: SlurmNode) -> _Shape:
    gpus = whole_gpus(node.gres)
    return _Shape(
        cores=node.cpus,
        memory_bytes=node.memory_bytes,
        gpus=sum(each.count for each in gpus),
        gpu_type=gpus[0].type if gpus else "",
    )


def _mean_shape(partition: _Partition) -> _Shape | None:
    count = partition.total_nodes
    if not count:
        return None
    gpus = gpu_count(partition.resources)
    types = [name.partition(":")[2] for name in partition.resources if name.startswith("gres/gpu:")]
    return _Shape(
        cores=partition.cores // count,
        memory_bytes=int(mebibytes(partition.resources.get("mem", "")) * MIB) // count,
        gpus=gpus // count,
        gpu_type=types[0] if types else "",
    )


def _called(shape: _Shape) -> str:
    gpus = f"{shape.gpus}x{shape.gpu_type or 'gpu'}-" if shape.gpus else ""
    return f"{gpus}{shape.cores}c-{shape.memory_bytes >> 30}g"


def _yields(partition: _Partition, found: _Found) -> bool:
    """Return True if jobs of another partition on the same nodes stop those of this one."""
    names = partition.hosts | found.members.get(partition.name, set())
    return partition.preempts and any(
        other.tier > partition.tier and names & (other.hosts | found.members.get(other.name, set()))
        for other in found.partitions.values()
    )


def _queue(
    name: str,
    partition: _Partition,
    shape: _Shape,
    count: int,
    source: Source,
    *,
    interruptible: bool,
) -> Queue:
    memory = shape.memory_bytes
    if partition.most_memory_bytes:
        memory = min(memory, partition.most_memory_bytes)
    return Queue(
        name=name,
        submit_as=partition.name if name != partition.name else "",
        cores_per_node=shape.cores,
        memory_bytes_per_node=memory,
        gpus_per_node=shape.gpus,
        gpu_model=shape.gpu_type,
        nodes=count,
        min_nodes=partition.min_nodes,
        max_nodes=None
        if partition.max_nodes is None
        else max(partition.max_nodes, partition.min_nodes),
        max_s=partition.max_s,
        shared_nodes=not partition.exclusive,
        interruptible=interruptible,
        charging=_charging(partition.weights),
        source=source,
    )


def _charging(weights: Mapping[str, str]) -> Charging:
    """Return billing by cores and GPUs; what Slurm's billing units cost is not known to it."""
    lower = {name.lower(): value for name, value in weights.items()}
    cores, gpus = _weight(lower.get("cpu", "")), _weight(lower.get("gres/gpu", ""))
    if not cores and not gpus:
        return Charging(usd_per_unit=None)
    return Charging(
        basis=Basis.CORE_S, rate=cores, gpu_rate=gpus, unit="billing-hour", usd_per_unit=None
    )


def _weight(text: str) -> float:
    try:
        return max(0.0, float(text))
    except ValueError:
        return 0.0
