"""Reads recorded accesses: blocks of disks, prompt blocks of model servers, addresses of programs.

- CloudPhysics: `version,time,op,size,lbn`, 512-byte blocks; an access for each page that a request
  covers.
- Mooncake: `t_s,…,prefix_block_ids`; an access for each block of a prompt.
- Addresses: `t_s,address` and maybe `bytes`; addresses may be hexadecimal.

Times are kept in their proportions and scaled: a program that waits for memory has its accesses one
after the other, much faster than requests arrive at a disk.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError, did_you_mean
from steward.model.memory.trace import AccessTrace, trace_of
from steward.sim.memory.generated import GENERATED, generate
from steward.sim.traces.locate import data_folder

__all__ = ["NAMED", "named_traces", "read_accesses"]

THINK_PER_LINE_S = 1e-7
BLOCK_BYTES = 512
_MOST_PAGES = 4096  # of one access: larger ones are a fault of the file
_FORMATS = ("size,lbn", "prefix_block_ids", "address")
NAMED = {
    "cloudphysics": "telemetry/cloudphysics_block/cloudPhysicsIO.csv",
    "mooncake": "llm_traces/mooncake_conversation",
}
Rows = tuple[list[int], list[float], int]


def read_accesses(
    source: str | Path,
    *,
    accesses: int = 1_000_000,
    pages: int = 20_000,
    page_bytes: int = 4096,
    seed: int = 0,
) -> AccessTrace:
    """Read a file or a name; kinds of `GENERATED` are made up, of so many accesses and pages.

    At most the first `accesses` are used.
    """
    if str(source) in GENERATED and not Path(source).exists():
        return generate(str(source), accesses=accesses, pages=pages, seed=seed)
    if page_bytes < BLOCK_BYTES or page_bytes & (page_bytes - 1):
        hint = f"give a power of two from {BLOCK_BYTES} on, such as 4096"
        raise StewardError(f"pages of {page_bytes} bytes", where="page size", hint=hint)
    file = _find(source)
    columns, reader = _format_of(file)
    keys, times, left_out = reader(_rows(file, columns), page_bytes)
    keys, times = keys[:accesses], times[:accesses]
    name = str(source) if str(source) in NAMED else file.stem
    lines = 1 if reader is _addresses else page_bytes // 64
    found = trace_of(name, np.array(keys, np.int64), _think(times, lines))
    return replace(
        found,
        page_bytes=page_bytes,
        lines=lines,
        left_out=left_out,
        parallel=4.0 if lines == 1 else 16.0,
    )


def named_traces() -> list[str]:
    """Return the names of recorded traces that are there, and of kinds that are made up."""
    there = [name for name, place in NAMED.items() if (_data() / place).exists()]
    return [*there, *GENERATED]


def _data() -> Path:
    return data_folder().parent


def _find(source: str | Path) -> Path:
    place = _data() / NAMED[str(source)] if str(source) in NAMED else Path(source)
    if place.is_dir():
        files = sorted(place.glob("*.csv"))
        if len(files) == 1:
            return files[0]
    if place.is_file():
        return place
    known = named_traces()
    hint = did_you_mean(str(source), known) or f"give a CSV file, or one of {', '.join(known)}"
    raise StewardError("there is no such access trace", where=str(source), hint=hint)


def _think(times: list[float], lines: int) -> NDArray[np.float64]:
    """Return the time before each access, in proportion to what was recorded."""
    gaps = np.diff(np.array(times[:1] + times, np.float64))
    gaps = np.maximum(gaps, 0.0)  # a clock that went back
    mean = float(gaps.mean()) if len(gaps) else 0.0
    wanted = THINK_PER_LINE_S * lines
    return gaps * (wanted / mean) if mean > 0.0 else np.full(len(gaps), wanted)


def _format_of(file: Path) -> tuple[list[str], Callable[[Iterator[list[str]], int], Rows]]:
    try:
        with file.open(encoding="utf-8") as lines:
            header = next(csv.reader(lines), [])
    except (OSError, UnicodeDecodeError) as fault:
        hint = "give a CSV file of accesses"
        raise StewardError(f"it cannot be read: {fault}", where=str(file), hint=hint) from fault
    names = [each.strip() for each in header]
    for needed, reader in _READERS.items():
        if {*needed} <= {*names}:
            return [names[i] if i < len(names) else "" for i in range(len(names))], reader
    hint = "columns are time, size, lbn; or t_s, prefix_block_ids; or t_s, address (, bytes)"
    problem = f"its columns are {', '.join(names) or 'none'}"
    raise StewardError(problem, where=str(file), hint=hint)


def _rows(file: Path, columns: list[str]) -> Iterator[list[str]]:
    """Return the cells that a reader wants, in its order; a short row as an empty one."""
    wanted = next(needed for needed in _READERS if {*needed} <= {*columns})
    places = [columns.index(name) for name in wanted]
    extra = columns.index("bytes") if "bytes" in columns else None
    with file.open(encoding="utf-8", errors="replace") as lines:
        reader = csv.reader(lines)
        next(reader)
        for row in reader:
            if len(row) <= max(places):
                yield []
                continue
            cells = [row[place] for place in places]
            more = [row[extra]] if extra is not None and len(row) > extra else []
            yield cells + more


def _blocks(rows: Iterator[list[str]], page_bytes: int) -> Rows:
    keys: list[int] = []
    times: list[float] = []
    left_out = 0
    for row in rows:
        try:
            t_s, size, first = float(row[0]), int(row[1]), int(row[2])
        except (ValueError, IndexError):
            left_out += 1
            continue
        begin = first * BLOCK_BYTES // page_bytes
        end = (first * BLOCK_BYTES + max(size, 1) - 1) // page_bytes
        if first < 0 or size < 0 or end - begin >= _MOST_PAGES or not np.isfinite(t_s):
            left_out += 1
            continue
        keys += range(begin, end + 1)
        times += [t_s] * (end + 1 - begin)
    return keys, times, left_out


def _prompts(rows: Iterator[list[str]], _: int) -> Rows:
    keys: list[int] = []
    times: list[float] = []
    left_out = 0
    for row in rows:
        try:
            t_s, blocks = float(row[0]), [int(each) for each in row[1].split()]
        except (ValueError, IndexError):
            left_out += 1
            continue
        keys += blocks
        times += [t_s] * len(blocks)
    return keys, times, left_out


def _addresses(rows: Iterator[list[str]], page_bytes: int) -> Rows:
    keys: list[int] = []
    times: list[float] = []
    left_out = 0
    for row in rows:
        try:
            t_s, address = float(row[0]), int(row[1], 0)
            size = int(row[2]) if len(row) > 2 else 1
        except (ValueError, IndexError):
            left_out += 1
            continue
        begin, end = address // page_bytes, (address + max(size, 1) - 1) // page_bytes
        if address < 0 or end - begin >= _MOST_PAGES or not np.isfinite(t_s):
            left_out += 1
            continue
        keys += range(begin, end + 1)
        times += [t_s] * (end + 1 - begin)
    return keys, times, left_out


_READERS: Mapping[tuple[str, ...], Callable[[Iterator[list[str]], int], Rows]] = {
    ("time", "size", "lbn"): _blocks,
    ("t_s", "prefix_block_ids"): _prompts,
    ("t_s", "address"): _addresses,
}
