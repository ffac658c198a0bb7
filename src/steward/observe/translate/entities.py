"""Entities as labels, and labels as entities: `n01/gpu3` is `{node="n01", gpu="3"}`.

A job is `job_id`, since Prometheus puts its own `job` on everything that it scrapes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from steward.model.frame import path_named, path_part, steps_of

__all__ = ["entity_of", "labels_of", "node_name", "with_rest"]

_PART = re.compile(r"^([a-z]+?)(?::(.+)|(\d+))$")
_PARTS = ("gpu", "mig", "cpu", "numa", "disk", "net", "ib", "mount", "fs")
_NUMBERED = ("gpu", "mig", "cpu", "numa")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


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
    parts = [_step(part, labels[part]) for part in _PARTS if labels.get(part)]
    parts += [labels["part"]] if labels.get("part") else []
    entity = "/".join((node, *parts))
    return f"{entity}@{job}" if job and of_job else entity


def _name(text: str) -> str:
    return path_named(text) if text.startswith("/") else text


def _step(kind: str, name: str) -> str:
    if name.startswith("/"):
        return path_part(kind, name)
    return f"{kind}{name}" if name.isdigit() and kind in _NUMBERED else f"{kind}:{name}"


def node_name(text: str) -> str:
    """Return the node that an address or host name is of, safe to be part of an entity.

    >>> node_name("n01:9100"), node_name("http://n02.site:80/metrics"), node_name("[fe80::1]:9400")
    ('n01', 'n02.site', 'fe80__1')
    """
    host = text.partition("://")[2] or text
    host = host.partition("/")[0]
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    return _UNSAFE.sub("_", host)


def with_rest(node: str, labels: Mapping[str, str], *, without: frozenset[str]) -> str:
    """Name an entity of a metric that nobody has translated: the node and all other labels.

    >>> with_rest("n01", {"model": "x", "engine": "0", "job": "vllm"}, without=frozenset({"job"}))
    'n01{engine="0",model="x"}'
    """
    rest = sorted(name for name in labels if name not in without and not name.startswith("__"))
    inside = ",".join(f'{name}="{_quoted(labels[name])}"' for name in rest)
    return f"{node}{{{inside}}}" if inside else node


def _quoted(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
