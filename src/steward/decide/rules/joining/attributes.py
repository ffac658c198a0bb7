"""What a thing can be joined on: where it was, whose it was, and what was read from it."""

from __future__ import annotations

import re
from functools import lru_cache

from steward.model.frame import steps_of
from steward.model.rules import Item, Stream

__all__ = ["KNOWN_ATTRIBUTES", "attributes_of"]

KNOWN_ATTRIBUTES = ("host", "gpu", "job", "rank", "container")  # beside what rules extract

_RANK = re.compile(r"\s*\[rank(\d+)\]:?")
_LABELS = {"node": "host", "job_id": "job"}  # what series call them
_GPU = re.compile(r"(?:gpu|cuda:?)?\s*(\d+)", re.IGNORECASE)


def attributes_of(item: Item, stream: Stream | None = None) -> dict[str, str]:
    """Return the attributes of one thing; what was read from the line itself counts most."""
    found = dict(_of_entity(item.entity))
    if stream is not None:
        found.update(stream.attributes)
    rank = _RANK.match(item.text) if stream is not None else None
    if rank is not None:
        found["rank"] = rank[1]
    found.update(item.extracted)
    for label, name in _LABELS.items():
        found[name] = found.get(name) or found.get(label, "")
    if "gpu" in found:
        found["gpu"] = _full_name(found["gpu"], found.get("host", ""))
    return {name: value for name, value in found.items() if value}


@lru_cache(maxsize=65536)
def _of_entity(entity: str) -> tuple[tuple[str, str], ...]:
    """Take an entity apart: `n01/gpu3@812` is host n01, gpu n01/gpu3, job 812."""
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
