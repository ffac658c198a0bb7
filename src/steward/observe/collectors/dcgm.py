"""Reads GPUs through NVIDIA's dcgm-exporter, where that is what a site has."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import count

import polars as pl

from steward.clients.dcgm_exporter import LOOPBACK, DcgmExporter, DcgmSample, has_dcgm_library
from steward.clients.host import hostname
from steward.errors import StewardError
from steward.model.cluster import Cluster, Gpu, GpuModel, Node
from steward.model.event import Availability, Event, Observation
from steward.model.frame import ENTITY, OTHER_SCHEMA, T_S, Frame, empty_frame
from steward.model.identity import GpuId, NodeId, stable_id
from steward.model.metric import MIB
from steward.model.metrics import aliases_from
from steward.model.span import Span

__all__ = ["Dcgm"]

# Spellings of labels since the first exporters; 4.9 writes them all in small letters.
HOST = ("hostname", "Hostname")
INSTANCE = ("GPU_I_ID", "gpu_i_id", "gpu_instance_id")
UUID = ("UUID", "gpu_uuid", "uuid")
MODEL = ("modelName", "model_name")
POD_UID = ("pod_uid", "exported_pod_uid")
POD = ("pod", "exported_pod", "pod_name")
NAMESPACE = ("namespace", "exported_namespace", "pod_namespace")
RATIO = "DCGM_FI_DEV_GPU_UTIL_RATIO"
_BLANKS = (
    2147483632.0,
    140737488355312.0,
    9223372036854774784.0,
)  # DCGM's placeholders for "no value"
_INDEX = re.compile(r"\d{1,4}")

Rows = dict[str, dict[str, float]]  # by entity


class Dcgm:
    """GPUs of a dcgm-exporter, with the jobs that its labels name, once per turn.

    `url` is its page; `node` is what its machine is called. Empty means this machine's name for an
    exporter on it, else the name that the exporter gives.
    """

    name = "dcgm"
    vocabulary = "dcgm"

    def __init__(
        self,
        *,
        url: str = "http://127.0.0.1:9400/metrics",
        node: str = "",
        exporter: DcgmExporter | None = None,
    ) -> None:
        self._exporter = exporter or DcgmExporter(url)
        own = hostname() if self._exporter.host in LOOPBACK else ""
        self._node = node or own  # in a container the exporter's name is that of its pod
        self._spans: dict[tuple[str, str], Span] = {}  # by entity and job
        self._numbers: dict[str, dict[str, int]] = {}  # by host and UUID
        self._last_cluster: Cluster | None = None
        self._missing = False
        self._percent = False

    def available(self) -> Availability:
        try:
            samples = self._exporter.read()
        except StewardError as fault:
            hint = fault.hint
            if has_dcgm_library():
                hint = f"DCGM is installed, its exporter does not answer; {hint}"
            return Availability(status="missing", reason=str(fault), hint=hint)
        gpus = {entity for each in samples if (entity := self._entity(each.labels))}
        if not gpus:
            return Availability(
                status="limited",
                reason=f"{self._exporter.url} answers, but names no GPU",
                hint='look at its page: it should have `DCGM_FI_DEV_…{gpu="0"…`',
            )
        return Availability(status="ok", reason=f"{len(gpus)} GPUs at {self._exporter.url}")

    def collect(self, t_s: float) -> Observation:
        try:
            samples = self._in_shares(self._exporter.read())
        except StewardError as fault:
            return self._without_exporter(fault, t_s)
        self._missing = False
        known = aliases_from(self.vocabulary)
        rows: Rows = {}
        other: list[tuple[float, str, str, float]] = []
        for each in samples:
            entity = self._entity(each.labels)
            if entity and each.name in known:
                # A GPU that pods share comes once for each of them, with the same value.
                rows.setdefault(entity, {}).setdefault(each.name, each.value)
            elif math.isfinite(each.value) and not _is_blank(each.value):
                other.append((t_s, entity or self._host(each.labels), _long_name(each), each.value))
        return Observation(
            frame=_frame(rows, t_s),
            other=pl.DataFrame(other, schema=OTHER_SCHEMA, orient="row"),
            spans=self._jobs(samples, t_s),
            cluster=self._new_cluster(samples, rows),
        )

    def close(self) -> None:
        """Close the connection to the exporter."""
        self._exporter.close()

    def _without_exporter(self, fault: StewardError, t_s: float) -> Observation:
        """Report once that there is nothing to read; retry each turn. Jobs stay as they were."""
        reported, self._missing = self._missing, True
        event = Event(
            t_s=t_s,
            kind="collector.missing",
            subject=self._host({}),
            text=f"{fault}; {fault.hint}",
            source=self.name,
        )
        return Observation() if reported else Observation(events=(event,))

    def _in_shares(self, samples: list[DcgmSample]) -> list[DcgmSample]:
        """Convert DCGM 4.6's value: its field of this name was still a percentage."""
        ratios = [each.value for each in samples if each.name == RATIO]
        self._percent = self._percent or any(1 < value <= 100 for value in ratios)
        if not self._percent:
            return samples
        return [replace(s, value=s.value / 100) if s.name == RATIO else s for s in samples]

    def _host(self, labels: Mapping[str, str]) -> str:
        return self._node or _first(labels, HOST) or self._exporter.host

    def _entity(self, labels: Mapping[str, str]) -> str:
        """Return the GPU or the slice of a value; empty where it is of neither."""
        index = labels.get("gpu", "")
        if not _INDEX.fullmatch(index):
            return ""
        host = self._host(labels)
        gpu = f"{host}/gpu{self._number(host, _first(labels, UUID), int(index))}"
        instance = _first(labels, INSTANCE)
        return f"{gpu}/mig{int(instance)}" if _INDEX.fullmatch(instance) else gpu

    def _number(self, host: str, uuid: str, index: int) -> int:
        """Return the number that a GPU had first: exporters count anew when one was removed."""
        if not uuid.startswith("GPU-"):  # unknown, or that of a slice
            return index
        known = self._numbers.setdefault(host, {})
        if uuid not in known:
            taken = set(known.values())
            known[uuid] = next(number for number in count(index) if number not in taken)
        return known[uuid]

    def _jobs(self, samples: Iterable[DcgmSample], t_s: float) -> tuple[Span, ...]:
        """Return spans that began, and those that ended with their end."""
        now = {
            (entity, job): each.labels
            for each in samples
            if (entity := self._entity(each.labels)) and (job := _job(each.labels))
        }
        ended = [replace(self._spans.pop(key), to_s=t_s) for key in set(self._spans) - set(now)]
        began = []
        for key in sorted(set(now) - set(self._spans)):
            entity, job = key
            self._spans[key] = Span(
                id=stable_id("s", self.name, entity, job, t_s),
                entity=entity,
                kind="job",
                name=job,
                from_s=t_s,
                source=self.name,
                about=_about(now[key]),
            )
            began.append(self._spans[key])
        return (*sorted(ended, key=lambda span: span.id), *began)

    def _new_cluster(self, samples: Iterable[DcgmSample], rows: Rows) -> Cluster | None:
        """Return the GPUs if they have changed since they were last reported."""
        labels: dict[str, Mapping[str, str]] = {}
        for each in samples:
            entity = self._entity(each.labels)
            if entity and "/mig" not in entity:
                labels.setdefault(entity, each.labels)
        nodes: dict[str, list[Gpu]] = {}
        for entity, found in sorted(labels.items()):
            node = self._host(found)
            nodes.setdefault(node, []).append(_gpu(entity, node, found, rows.get(entity, {})))
        cluster = Cluster(
            id="+".join(nodes) or self._host({}),
            nodes=tuple(Node(id=NodeId(n), gpus=tuple(gpus)) for n, gpus in nodes.items()),
        )
        if cluster == self._last_cluster:
            return None
        self._last_cluster = cluster
        return cluster


def _first(labels: Mapping[str, str], spellings: Iterable[str]) -> str:
    return next((labels[label] for label in spellings if labels.get(label)), "")


def _job(labels: Mapping[str, str]) -> str:
    """Return the job: a Slurm id from the exporter's mapping folder, or a pod."""
    if labels.get("hpc_job"):
        return labels["hpc_job"]
    pod = _first(labels, POD_UID) or "/".join(
        label for label in (_first(labels, NAMESPACE), _first(labels, POD)) if label
    )
    return f"pod:{pod}" if _first(labels, POD) else ""


def _about(labels: Mapping[str, str]) -> dict[str, str]:
    named = {"pod": POD, "namespace": NAMESPACE, "container": ("container",)}
    return {label: text for label, of in named.items() if (text := _first(labels, of))}


def _gpu(entity: str, node: str, labels: Mapping[str, str], values: Mapping[str, float]) -> Gpu:
    watts = values.get("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 0.0)
    return Gpu(
        id=GpuId(entity),
        node=NodeId(node),
        index=int(entity.rpartition("/gpu")[2]),
        model=GpuModel(
            name=_first(labels, MODEL) or "unknown",
            generation="unknown",
            memory_bytes=_memory_bytes(values),
            idle_watts=0.0,
            max_watts=0.0 if _is_blank(watts) else watts,
        ),
        uuid=_first(labels, UUID),
    )


def _memory_bytes(values: Mapping[str, float]) -> int:
    """Add up a GPU's memory; an older exporter has no total."""
    if "DCGM_FI_DEV_FB_CAPACITY_BYTES" in values:
        return int(values["DCGM_FI_DEV_FB_CAPACITY_BYTES"])
    if "DCGM_FI_DEV_FB_TOTAL" in values:
        return int(values["DCGM_FI_DEV_FB_TOTAL"] * MIB)
    parts = [values.get(f"DCGM_FI_DEV_FB_{part}", 0.0) for part in ("USED", "FREE", "RESERVED")]
    return int(sum(part for part in parts if not _is_blank(part)) * MIB)


def _is_blank(value: float) -> bool:
    return any(blank <= value <= blank * 1.0000001 for blank in _BLANKS)


def _long_name(sample: DcgmSample) -> str:
    """Return a name with the labels that distinguish values of one GPU: links, lanes, codes."""
    telling = ("nvlink", "nvswitch", "link", "lane", "xid", "err_code", "clock_event", "cpu")
    parts = [f"{label}={sample.labels[label]}" for label in telling if sample.labels.get(label)]
    return f"{sample.name}{{{','.join(parts)}}}" if parts else sample.name


def _frame(rows: Rows, t_s: float) -> Frame:
    if not rows:
        return empty_frame()
    names = sorted({name for values in rows.values() for name in values})
    return pl.DataFrame(
        [{T_S: t_s, ENTITY: entity, **values} for entity, values in rows.items()],
        schema={T_S: pl.Float64, ENTITY: pl.String, **dict.fromkeys(names, pl.Float64)},
    )
