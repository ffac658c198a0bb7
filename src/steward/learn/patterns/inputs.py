"""What there is to read: tables in folders and object stores, hours of recorded telemetry."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from steward.errors import StewardError
from steward.learn.patterns.store_windows import hours_of, is_store
from steward.learn.patterns.table_blocks import BROKEN, is_remote

__all__ = ["Input", "find_inputs", "in_parts"]

_TABLES = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".parquet", ".pq")
_ENDINGS = re.compile(r"(\.(csv|tsv|txt|parquet|pq|gz))+$", re.I)
_PART_BYTES = 64 << 20
_PART_FILES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One table, or one hour of a store folder."""

    path: str
    size_bytes: int
    run: str = ""  # of a table, unless it has a column of runs
    hour: int = -1


def find_inputs(paths: Sequence[str]) -> tuple[Input, ...]:
    """Return all that is below the paths, in an order that depends on the names only."""
    if not paths:
        raise StewardError("no path is given", hint="name files or folders with telemetry")
    found: dict[tuple[str, int], Input] = {}
    for path in paths:
        for each in _below(path):
            found.setdefault((each.path, each.hour), each)
    ordered = sorted(found.values(), key=lambda each: (each.path, each.hour))
    return tuple(_named(ordered))


def in_parts(inputs: Sequence[Input]) -> list[tuple[Input, ...]]:
    """Put small files together. Parts depend on the files alone, not on who works on them."""
    parts: list[tuple[Input, ...]] = []
    some: list[Input] = []
    size = 0
    for each in inputs:
        if some and (size + each.size_bytes > _PART_BYTES or len(some) >= _PART_FILES):
            parts.append(tuple(some))
            some, size = [], 0
        some.append(each)
        size += each.size_bytes
    return [*parts, tuple(some)] if some else parts


def _below(path: str) -> Iterator[Input]:
    if is_remote(path):
        yield from _remote(path)
        return
    place = Path(path)
    if place.is_file():
        yield Input(path=str(place), size_bytes=place.stat().st_size)
        return
    if not place.exists():
        hint = "name files or folders; `s3://bucket/folder/` for an object store"
        raise StewardError("there is no such file or folder", where=path, hint=hint)
    if is_store(place):
        yield from (Input(path=str(place), size_bytes=size, hour=n) for n, size in hours_of(place))
        return
    tables = [each for each in sorted(place.rglob("*")) if _is_table(each, place)]
    if not tables:
        raise StewardError(
            "there is no telemetry here",
            where=path,
            hint=f"tables end in {', '.join(_TABLES)}; a recorded folder has telemetry/date=...",
        )
    yield from (Input(path=str(each), size_bytes=each.stat().st_size) for each in tables)


def _is_table(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    return path.name.lower().endswith(_TABLES) and path.is_file() and not hidden


def _remote(path: str) -> Iterator[Input]:
    """List an object store by polars' own reader; sizes are not known, each counts as one part."""
    if path.endswith(_TABLES) and "*" not in path:
        yield Input(path=path, size_bytes=_PART_BYTES)
        return
    patterns = [path] if "*" in path else [f"{path.rstrip('/')}/**/*{end}" for end in _TABLES]
    faults: list[str] = []
    names: set[str] = set()
    for pattern in patterns:
        try:
            names.update(_listed(pattern))
        except BROKEN as fault:
            faults.append(" ".join(str(fault).split())[:200])
    if not names:
        raise StewardError(
            f"nothing can be listed here: {faults[0] if faults else 'no table'}",
            where=path,
            hint="check the address and the rights (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, ...)",
        )
    yield from (Input(path=name, size_bytes=_PART_BYTES) for name in sorted(names))


def _listed(pattern: str) -> list[str]:
    if pattern.endswith((".parquet", ".pq")):
        scan = pl.scan_parquet(
            pattern, include_file_paths="\0path", missing_columns="insert", extra_columns="ignore"
        )
    else:
        scan = pl.scan_csv(
            pattern,
            has_header=False,
            separator="\x01",
            quote_char=None,
            schema={"line": pl.String()},
            include_file_paths="\0path",
        )
    return scan.select(pl.col("\0path").unique()).collect().to_series().to_list()


def _named(inputs: Sequence[Input]) -> Iterator[Input]:
    """Call each run after its file; with its folder where two files have one name."""
    stems = [_ENDINGS.sub("", each.path.rpartition("/")[2]) for each in inputs]
    for each, stem in zip(inputs, stems, strict=True):
        name = stem if stems.count(stem) == 1 else _ENDINGS.sub("", each.path)
        yield Input(path=each.path, size_bytes=each.size_bytes, run=name, hour=each.hour)
