"""Reads Slurm's small languages: numbers, lists of hosts, resources."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from steward.model.hostlist import hosts, numbers, split_outside

__all__ = [
    "Gres",
    "epoch_s",
    "gpu_count",
    "gres",
    "holder",
    "hosts",
    "mebibytes",
    "number",
    "tres",
    "upper_names",
    "wait_status",
    "whole_gpus",
    "whole_number",
]

_HOLDERS = {
    "jobhelduser": "user",
    "jobheldadmin": "admin",
    "job requeued in held state": "requeue",
}
MOST_DEVICES = 256  # of one node
_SUFFIXES = {"K": 2.0**-10, "M": 1.0, "G": 2.0**10, "T": 2.0**20, "P": 2.0**30}
_SLICE = re.compile(r"\dg\.\d+gb$")  # a MIG profile: a slice, whose GPU is unknown to Slurm
_GRES = re.compile(r"(?P<name>[^:(,]+)(?::(?P<type>[^:(,]*[^:(,\d][^:(,]*))?(?::(?P<count>\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gres:
    """A generic resource, `gpu:a100:2(IDX:0-1)`: `indices` are devices, empty where not listed."""

    name: str
    type: str = ""
    count: int = 0
    indices: tuple[int, ...] = ()


def number(value: object) -> float | None:
    """Return a number of any shape; None where it is not set, or infinite.

    >>> number(5), number({"set": True, "infinite": False, "number": 5})
    (5.0, 5.0)
    >>> number({"set": False, "infinite": False, "number": 0}), number(None), number("x")
    (None, None, None)
    """
    if isinstance(value, dict):
        if not value.get("set", True) or value.get("infinite"):
            return None
        value = value.get("number")
    return float(value) if isinstance(value, int | float) else None


def upper_names(value: object) -> tuple[str, ...]:
    """Return one name or a list of them in upper case: 22.05 has one, later versions a list."""
    if isinstance(value, str):
        return (value.upper(),) if value else ()
    return tuple(str(each).upper() for each in value) if isinstance(value, list) else ()


@lru_cache(maxsize=4096)  # a queue of 100,000 jobs has a few hundred different requests
def tres(text: str) -> Mapping[str, str]:
    """Read `cpu=4,mem=4G,gres/gpu=2`."""
    pairs = (part.partition("=") for part in (text or "").split(",") if part)
    return {name: value for name, _, value in pairs}


def gpu_count(resources: Mapping[str, str]) -> int:
    """Return how many GPUs a TRES list has; typed entries repeat the untyped one.

    >>> gpu_count({"gres/gpu": "4", "gres/gpu:a100": "4"}), gpu_count({"gres/gpu:a100": "2"})
    (4, 2)
    """
    typed = sum(whole_number(v) for name, v in resources.items() if name.startswith("gres/gpu:"))
    return whole_number(resources.get("gres/gpu", "")) or typed


def mebibytes(text: str) -> float:
    """Return Slurm's way of writing memory in MiB: `4G`, `500M`, `20000`, `1.50T`.

    >>> mebibytes("4G"), mebibytes("500"), mebibytes("")
    (4096.0, 500.0, 0.0)
    """
    found = re.match(r"([\d.]+)([KMGTP]?)", text or "")
    try:
        return float(found[1]) * _SUFFIXES[found[2] or "M"] if found else 0.0
    except ValueError:
        return 0.0


@lru_cache(maxsize=4096)
def gres(text: str) -> tuple[Gres, ...]:
    """Read generic resources as jobs and nodes have them, with or without type and devices.

    >>> gres("gpu:a100:3(IDX:0,5-6),shard:2(S:0)")[0].indices
    (0, 5, 6)
    >>> [(each.type, each.count) for each in gres("gres:gpu:h100:8,gpu:2")]
    [('h100', 8), ('', 2)]
    """
    parts = split_outside(text or "", "(", ")")
    return tuple(each for part in parts for each in _one_gres(part))


def whole_gpus(held: Iterable[Gres]) -> list[Gres]:
    """Return the GPUs among generic resources, without slices of GPUs."""
    return [each for each in held if each.name == "gpu" and not _SLICE.search(each.type)]


def _one_gres(text: str) -> Iterator[Gres]:
    text = text.strip().removeprefix("gres:").removeprefix("gres/").replace("=", ":", 1)
    found = _GRES.match(text)
    if not found or text in ("(null)", "N/A"):
        return
    devices = re.search(r"\(IDX:([\d,-]+)\)", text)
    places = numbers(devices[1]) if devices else ()
    indices = tuple(sorted({int(place) for place in itertools.islice(places, MOST_DEVICES)}))
    number_text = found["count"] or ("" if indices else "1")
    count = int(number_text) if number_text else len(indices)
    yield Gres(name=found["name"], type=found["type"] or "", count=count, indices=indices)


def whole_number(text: str) -> int:
    """Return a number in digits; 0 for anything else."""
    return int(text) if text.isdecimal() else 0


def epoch_s(text: str) -> float | None:
    """Return a time in seconds since 1970; None for 0, `N/A`, `Unknown` and `None`."""
    return float(text) if text.isdecimal() and int(text) else None


def wait_status(status: int) -> tuple[int, int]:
    """Return exit code and signal of a status as wait(2) gives it.

    >>> wait_status(3 << 8), wait_status(9)
    ((3, 0), (0, 9))
    """
    if os.WIFSIGNALED(status):
        return 0, os.WTERMSIG(status)
    return os.WEXITSTATUS(status), 0


def holder(reason: str) -> str:
    """Return who holds a job by Slurm's reason: `user`, `admin`, `requeue`, or nobody.

    Both of its spellings are known, and the first of two reasons counts.

    >>> holder("JobHeldUser,JobArrayTaskLimit"), holder("job_requeued_in_held_state"), holder("")
    ('user', 'requeue', '')
    """
    return _HOLDERS.get(reason.partition(",")[0].replace("_", " ").lower(), "")
