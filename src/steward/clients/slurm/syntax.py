"""Reads Slurm's small languages: numbers, lists of hosts, resources."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from steward.errors import StewardError

__all__ = ["Gres", "gpu_count", "gres", "hosts", "mebibytes", "number", "tres", "words"]

MOST_HOSTS = 100_000  # more than any site has; a typing mistake must not fill the memory
MOST_DEVICES = 256  # of one node
_SUFFIXES = {"K": 2.0**-10, "M": 1.0, "G": 2.0**10, "T": 2.0**20, "P": 2.0**30}
_GRES = re.compile(r"(?P<name>[^:(,]+)(?::(?P<type>[^:(,]*[^:(,\d][^:(,]*))?(?::(?P<count>\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gres:
    """A generic resource, `gpu:a100:2(IDX:0-1)`: `indices` are devices, empty where not said."""

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


def words(value: object) -> tuple[str, ...]:
    """Return one word or a list of them in upper case: 22.05 says one, later versions a list."""
    if isinstance(value, str):
        return (value.upper(),) if value else ()
    return tuple(str(each).upper() for each in value) if isinstance(value, list) else ()


@lru_cache(maxsize=4096)
def hosts(text: str) -> tuple[str, ...]:
    """Write a list of hosts out.

    >>> hosts("n[1-3,7],gpu[08-10]-ib,login")
    ('n1', 'n2', 'n3', 'n7', 'gpu08-ib', 'gpu09-ib', 'gpu10-ib', 'login')
    >>> hosts("r[1-2]n[1-2]")
    ('r1n1', 'r1n2', 'r2n1', 'r2n2')
    """
    if text in ("", "(null)", "None assigned", "None"):
        return ()
    found: list[str] = []
    for part in _outside(text, "[", "]"):
        found += itertools.islice(_written_out(part), MOST_HOSTS + 1)
        if len(found) > MOST_HOSTS:
            raise StewardError(f"'{text[:60]}' names more than {MOST_HOSTS} hosts")
    return tuple(found)


@lru_cache(maxsize=4096)  # a queue of 100,000 jobs asks for a few hundred different things
def tres(text: str) -> Mapping[str, str]:
    """Read `cpu=4,mem=4G,gres/gpu=2`."""
    pairs = (part.partition("=") for part in (text or "").split(",") if part)
    return {name: value for name, _, value in pairs}


def gpu_count(resources: Mapping[str, str]) -> int:
    """Return how many GPUs a TRES list has; typed ones repeat what the untyped one says.

    >>> gpu_count({"gres/gpu": "4", "gres/gpu:a100": "4"}), gpu_count({"gres/gpu:a100": "2"})
    (4, 2)
    """
    typed = sum(_whole(v) for name, v in resources.items() if name.startswith("gres/gpu:"))
    return _whole(resources.get("gres/gpu", "")) or typed


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
    parts = _outside(text or "", "(", ")")
    return tuple(each for part in parts for each in _one_gres(part))


def _one_gres(text: str) -> Iterator[Gres]:
    text = text.strip().removeprefix("gres:").removeprefix("gres/").replace("=", ":", 1)
    found = _GRES.match(text)
    if not found or text in ("(null)", "N/A"):
        return
    devices = re.search(r"\(IDX:([\d,-]+)\)", text)
    places = _numbers(devices[1]) if devices else ()
    indices = tuple(sorted({int(place) for place in itertools.islice(places, MOST_DEVICES)}))
    said = found["count"] or ("" if indices else "1")
    count = int(said) if said else len(indices)
    yield Gres(name=found["name"], type=found["type"] or "", count=count, indices=indices)


def _outside(text: str, opening: str, closing: str) -> Iterator[str]:
    """Split at the commas that are not inside brackets."""
    depth = begin = 0
    for at, sign in enumerate(text):
        depth += (sign == opening) - (sign == closing)
        if sign == "," and depth <= 0:
            yield text[begin:at]
            begin = at + 1
    if text[begin:]:
        yield text[begin:]


def _written_out(text: str) -> Iterator[str]:
    before, bracket, rest = text.partition("[")
    if not bracket:
        yield text
        return
    inside, _, after = rest.partition("]")
    for middle in _numbers(inside):
        for end in _written_out(after):
            yield f"{before}{middle}{end}"


def _numbers(text: str) -> Iterator[str]:
    """Write `01-03,7` out, with its leading zeros."""
    for part in text.split(","):
        low, _, high = part.partition("-")
        if low.isdigit() and high.isdigit():
            yield from (str(n).zfill(len(low)) for n in range(int(low), int(high) + 1))
        elif low:
            yield low


def _whole(text: str) -> int:
    return int(text) if text.isdigit() else 0
