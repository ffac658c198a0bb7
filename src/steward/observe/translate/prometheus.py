"""Series of Prometheus: steward's, dcgm-exporter's, node_exporter's; others keep their names."""

from __future__ import annotations

import re
from collections.abc import Mapping

from steward.errors import StewardError
from steward.model.label import PREFIX, by_exposed_name, entity_of
from steward.model.metrics import aliases_from
from steward.observe.translate.entities import node_name, with_rest
from steward.observe.translate.mapping import SeriesMapping, known_mapping, rates_by_name

__all__ = ["map_series"]

# In Kubernetes an exporter's own host name is its pod's: the labels that scraping adds come first.
_NODE_LABELS = ("node", "kubernetes_node", "Hostname", "hostname", "nodename", "host", "instance")
_ABOUT_SCRAPING = frozenset({*_NODE_LABELS, "job", "endpoint", "prometheus", "prometheus_replica"})
_DISTINGUISHED_BY = {"node_cpu_seconds_total": "mode"}
# Partitions, mapped and looped devices repeat the values of their disk.
_NOT_A_DISK = re.compile(r"^(dm-|loop|md|ram|zram|sr|fd|nbd)|^(sd|vd|xvd|hd)[a-z]+\d+$|n\d+p\d+$")
_PER_DEVICE = {
    "node_disk_read_bytes_total": "disk",
    "node_disk_written_bytes_total": "disk",
    "node_network_receive_bytes_total": "net",
    "node_network_transmit_bytes_total": "net",
}


def map_series(labels: Mapping[str, str]) -> SeriesMapping:
    """Return what a series is; raise for one without a name."""
    name = labels.get("__name__", "")
    if not name:
        raise StewardError("a series has no name", hint="every series needs the label __name__")
    node = _node(labels)
    place = (
        _ours(name, labels)
        if name.startswith(PREFIX)
        else _dcgm(name, labels, node)
        if name.startswith("DCGM_FI_")
        else _node_exporter(name, labels, node)
        if name.startswith("node_")
        else None
    )
    if place is not None and place.entity:
        return place
    return SeriesMapping(entity=with_rest(node, labels, without=_ABOUT_SCRAPING), name=name)


def _node(labels: Mapping[str, str]) -> str:
    for label in _NODE_LABELS:
        if labels.get(label):
            return node_name(labels[label])
    return "unknown"


def _ours(name: str, labels: Mapping[str, str]) -> SeriesMapping | None:
    metric = by_exposed_name().get(name)
    if metric is None:
        return None
    found = {**labels, "job_id": labels.get("job_id", "")}
    entity = entity_of(found, of_job=metric.of in ("job", "share"))
    return SeriesMapping(entity=entity, name=metric.name, metric=metric) if entity else None


def _dcgm(name: str, labels: Mapping[str, str], node: str) -> SeriesMapping | None:
    found = aliases_from("dcgm").get(name)
    index = labels.get("gpu") or labels.get("device", "").removeprefix("nvidia")
    if not index.isdigit():
        return None
    slice_ = labels.get("GPU_I_ID", "")
    entity = f"{node}/gpu{int(index)}" + (f"/mig{int(slice_)}" if slice_.isdigit() else "")
    if found is None:  # the entity is known, though not the metric
        return SeriesMapping(entity=entity, name=name, blanks=True)
    return known_mapping(entity, found, rates_by_name())


def _node_exporter(name: str, labels: Mapping[str, str], node: str) -> SeriesMapping | None:
    apart = _DISTINGUISHED_BY.get(name)
    alias = f"{name}/{labels.get(apart, '')}" if apart else name
    found = aliases_from("node_exporter").get(alias)
    if found is None:
        return None
    device, kind = labels.get("device", ""), _PER_DEVICE.get(name)
    if kind == "disk" and _NOT_A_DISK.search(device):
        return None
    if kind == "net" and device == "lo":
        return None
    return known_mapping(node, found, rates_by_name(), adds=bool(kind or apart))
