"""Entities as labels, and labels as entities: `n01/gpu3` is `{node="n01", gpu="3"}`.

A job is `job_id`, since Prometheus puts its own `job` on everything that it scrapes. A metric of
ours has its own name with underscores, after `steward_`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache

from steward.model.frame import path_named, path_part, steps_of
from steward.model.metric import Metric
from steward.model.metrics import METRICS

__all__ = ["PARTS", "PREFIX", "by_exposed_name", "entity_of", "exposed_name", "labels_of"]

PREFIX = "steward_"
PARTS = ("gpu", "mig", "cpu", "numa", "disk", "net", "ib", "mount", "fs")
_PART = re.compile(r"^([a-z]+?)(?::(.+)|(\d+))$")
_NUMBERED = ("gpu", "mig", "cpu", "numa")


@lru_cache(maxsize=65536)
def _labels(entity: str) -> tuple[tuple[str, str], ...]:
    path, _, job = entity.partition("@")
    if path.startswith("job:"):
        return (("job_id", path[4:]),)
    node, *parts = steps_of(path)
    found = [("node", node)]
    for part in parts:
        named = _PART.match(part)
        found.append((named[1], _name(named[2] or named[3])) if named else ("part", part))
    return (*found, ("job_id", job)) if job else tuple(found)


def labels_of(entity: str) -> dict[str, str]:
    """Return the labels that name an entity, node first.

    >>> labels_of("n01/gpu3/mig0"), labels_of("n01/disk:sda"), labels_of("n01@812")
    ({'node': 'n01', 'gpu': '3', 'mig': '0'}, {'node': 'n01', 'disk': 'sda'}, {'node': 'n01', \
'job_id': '812'})
    """
    return dict(_labels(entity))


def entity_of(labels: Mapping[str, str], *, of_job: bool) -> str:
    """Return the entity that labels name; `of_job` says whether `job_id` is part of it.

    >>> entity_of({"node": "n01", "gpu": "3", "job_id": "8"}, of_job=False)
    'n01/gpu3'
    """
    node, job = labels.get("node", ""), labels.get("job_id", "")
    if not node:
        return f"job:{job}" if job else ""
    parts = [_step(part, labels[part]) for part in PARTS if labels.get(part)]
    parts += [labels["part"]] if labels.get("part") else []
    entity = "/".join((node, *parts))
    return f"{entity}@{job}" if job and of_job else entity


def _name(text: str) -> str:
    return path_named(text) if text.startswith("/") else text


def _step(kind: str, name: str) -> str:
    if name.startswith("/"):
        return path_part(kind, name)
    return f"{kind}{name}" if name.isdigit() and kind in _NUMBERED else f"{kind}:{name}"


@cache
def exposed_name(name: str) -> str:
    """Return a metric's name in Prometheus' alphabet.

    >>> exposed_name("gpu.memory.used_bytes")
    'steward_gpu_memory_used_bytes'
    """
    return PREFIX + name.replace(".", "_").replace("-", "_")


@cache
def by_exposed_name() -> Mapping[str, Metric]:
    """Return every metric by its exposed name."""
    return {exposed_name(each.name): each for each in METRICS}
