"""Join attributes of an item: its host, GPU and job, and the values extracted from it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from steward.errors import StewardError
from steward.model.frame import steps_of
from steward.model.hostlist import hosts
from steward.model.rules import Item, Stream

__all__ = ["KNOWN_ATTRIBUTES", "attributes_of", "blamed", "values_of"]

KNOWN_ATTRIBUTES = ("host", "gpu", "job", "rank", "container")  # besides the extracts of rules

_RANK = re.compile(r"\s*\[rank(\d+)\]:?")
_LABELS = {"node": "host", "job_id": "job"}  # label names of series
_NAMING = {"host", "gpu", *_LABELS, *_LABELS.values()}  # parts of other names
_HOSTS = ("node", "host")  # attributes that may be host lists, and that name the blamed node
_GPU = re.compile(r"(?:gpu|cuda:?)?\s*(\d+)", re.IGNORECASE)


def attributes_of(item: Item, stream: Stream | None = None) -> Mapping[str, str]:
    """Return the attributes of an item; values extracted from the line itself win."""
    shared = () if stream is None else tuple(stream.attributes.items())
    own = item.extracted
    rank = _RANK.match(item.text) if stream is not None and "[rank" in item.text else None
    if rank is not None:
        own = {"rank": rank[1], **own}
    if not own:
        return _named(item.entity, shared)
    if _NAMING.isdisjoint(own):
        return {**_named(item.entity, shared), **{name: each for name, each in own.items() if each}}
    return _normal({**dict(_of_entity(item.entity)), **dict(shared), **own})


def values_of(name: str, value: str) -> tuple[str, ...]:
    """Return the values of an attribute: each host of a host list, or the value itself.

    >>> values_of("node", "gpu[17-19]"), values_of("port", "a[1-2]")
    (('gpu17', 'gpu18', 'gpu19'), ('a[1-2]',))
    """
    if name not in _HOSTS or not ("[" in value or "," in value):
        return (value,)
    try:
        return hosts(value) or (value,)
    except StewardError:  # larger than any site: a plain name, or a mistake
        return (value,)


def blamed(entity: str, named: Mapping[str, str]) -> str:
    """Return the entity of a match: the named node, where another node wrote the line.

    >>> blamed("ctl01", {"node": "gpu17"}), blamed("n01/gpu3", {"host": "n01"})
    ('gpu17', 'n01/gpu3')
    """
    node = next((named[name] for name in _HOSTS if named.get(name)), "")
    return entity if not node or node == dict(_of_entity(entity)).get("host") else node


@lru_cache(maxsize=65536)
def _named(entity: str, shared: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Return the attributes of all lines of a stream."""
    return MappingProxyType(_normal({**dict(_of_entity(entity)), **dict(shared)}))


def _normal(found: dict[str, str]) -> dict[str, str]:
    for label, name in _LABELS.items():
        found[name] = found.get(name) or found.get(label, "")
    if "gpu" in found:
        found["gpu"] = _full_name(found["gpu"], found.get("host", ""))
    return {name: value for name, value in found.items() if value}


@lru_cache(maxsize=65536)
def _of_entity(entity: str) -> tuple[tuple[str, str], ...]:
    """Split an entity: `n01/gpu3@812` is host n01, gpu n01/gpu3, job 812."""
    path, _, job = entity.partition("@")
    if path.startswith("job:"):
        return (("job", path[4:]),)
    host, *parts = steps_of(path)
    gpus = [part for part in parts if part.startswith("gpu")]
    return (("host", host), ("gpu", gpus[0] if gpus else ""), ("job", job))


def _full_name(gpu: str, host: str) -> str:
    """Name a GPU as telemetry does, so that `3`, `cuda:3` and `n01/gpu3` are the same one."""
    number = _GPU.fullmatch(gpu)
    if number is None:
        return gpu
    return f"{host}/gpu{number[1]}" if host else f"gpu{number[1]}"
