"""Points of OpenTelemetry: semantic conventions where there are some, our own names beyond."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from steward.model.label import entity_of
from steward.model.metric import Metric, MetricKind
from steward.model.metrics import CANONICAL, aliases_from
from steward.observe.translate.entities import node_name, with_rest
from steward.observe.translate.mapping import SeriesMapping, known_mapping, rates_by_name
from steward.observe.translate.prometheus import map_series

__all__ = ["map_point"]

_HOSTS = ("host.name", "k8s.node.name", "host.id", "service.instance.id", "service.name")
_GPU_INDEX = ("gpu", "hw.gpu.index", "gpu.index", "index")
# attributes that distinguish readings of one name
_DISTINGUISHED_BY = {
    "system.disk.io": ("disk.io.direction", "direction"),
    "system.network.io": ("network.io.direction", "direction"),
}
_ONE_STATE = {
    "system.memory.usage": ("system.memory.state", "used"),
    "hw.gpu.utilization": ("hw.gpu.task", "general"),
}
_PER_DEVICE = {
    "system.disk.io": ("system.device", "device"),
    "system.network.io": ("network.interface.name", "device"),
}
NO_LABELS: frozenset[str] = frozenset()


def map_point(
    name: str, resource: Mapping[str, str], attributes: Mapping[str, str], *, per_second: bool
) -> SeriesMapping:
    """Return what a point is. `per_second`: its counter was sent as a change, and is a rate."""
    node = _node(resource, attributes)
    place = _known(name, node, attributes)
    if place is not None and place.entity:
        return replace(place, rises=False) if per_second else place
    if name.startswith(("DCGM_FI_", "steward_", "node_")):  # a collector that scrapes passes on
        labels = {"instance": node, **attributes, "__name__": name}
        place = map_series(labels)
        return replace(place, rises=False) if per_second else place
    rate_name = f"{name}/rate" if per_second else name
    return SeriesMapping(entity=with_rest(node, attributes, without=NO_LABELS), name=rate_name)


def _node(resource: Mapping[str, str], attributes: Mapping[str, str]) -> str:
    for source, names in ((attributes, ("node", "host.name")), (resource, _HOSTS)):
        for name in names:
            if source.get(name):
                return node_name(source[name])
    return "unknown"


def _known(name: str, node: str, attributes: Mapping[str, str]) -> SeriesMapping | None:
    ours = aliases_from(CANONICAL).get(name)
    if ours is not None:
        return _placed(ours[0], node, attributes)
    if name in _ONE_STATE:
        attribute, wanted = _ONE_STATE[name]
        state = attributes.get(attribute, attributes.get("state", wanted))
        if state != wanted:
            return None
    apart = next((attributes[a] for a in _DISTINGUISHED_BY.get(name, ()) if a in attributes), "")
    found = aliases_from("otel").get(f"{name}/{apart}" if apart else name)
    if found is None:
        return None
    if found[0].of == "gpu":
        entity = _gpu(node, attributes)
        return known_mapping(entity, found, rates_by_name()) if entity else None
    if found[0].of != "node" or _is_loopback(name, attributes):
        return None
    return known_mapping(node, found, rates_by_name(), adds=name in _PER_DEVICE)


def _placed(metric: Metric, node: str, attributes: Mapping[str, str]) -> SeriesMapping:
    named = attributes if attributes.get("node") or attributes.get("job_id") else {
        **attributes, "node": node
    }  # fmt: skip
    entity = entity_of(named, of_job=metric.of in ("job", "share"))
    rises = metric.kind is MetricKind.COUNTER and bool(metric.rate)
    target = rates_by_name()[metric.rate] if rises else metric
    return SeriesMapping(entity=entity, name=target.name, metric=target, rises=rises)


def _gpu(node: str, attributes: Mapping[str, str]) -> str:
    if attributes.get("hw.type", "gpu") != "gpu":
        return ""
    for name in (*_GPU_INDEX, "hw.id"):
        value = attributes.get(name, "").removeprefix("nvidia")
        if value.isdigit():
            return f"{node}/gpu{int(value)}"
    id_ = attributes.get("hw.id", "")
    return f"{node}/gpu:{node_name(id_)}" if id_ else ""


def _is_loopback(name: str, attributes: Mapping[str, str]) -> bool:
    return any(attributes.get(each) == "lo" for each in _PER_DEVICE.get(name, ()))
