"""Raw telemetry becomes baskets in one pass: windows per file, sketches that merge, then levels.

The parts are files, so the answer has the same bytes on one core, all cores and Dask. What is kept
of a file is one float32 per window and group, and a sketch per group and scope.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.batch import Workers, map_parts
from steward.errors import StewardError
from steward.learn.patterns.combining import group_names
from steward.learn.patterns.file_windows import FileWindows, WindowPlan, read_windows
from steward.learn.patterns.inputs import Input, in_parts
from steward.learn.patterns.sketches import Sketch, merge_sketches, sketch_of
from steward.learn.patterns.store_windows import NodeRun, read_hour
from steward.learn.patterns.table_blocks import Reading

__all__ = [
    "GLOBAL",
    "IngestPlan",
    "Ingested",
    "RunWindows",
    "Scope",
    "by_name",
    "ingest",
    "value_names",
]

GLOBAL = "all"
_MOST_NAMED = 10_000  # names of unknown columns, and files that cannot be read
_MOST_HOSTS = 5_000
_COARSE = 64  # buckets per host and group: enough for its median
Key = tuple[int, str, int]  # window size, scope, group


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which hosts share thresholds: all, those of one hardware or cluster, or each its own.

    `hosts` has the scope of hosts as a person gave it; others get `hardware` by their columns.
    """

    by: str = "global"  # global, hardware, cluster or host
    hosts: Mapping[str, str] = field(default_factory=dict)

    def of(self, host: str, hardware: str) -> str:
        """Return the name of a host's scope."""
        if self.by == "global":
            return GLOBAL
        if self.by == "host":
            return host or "unknown host"
        return self.hosts.get(host, hardware if self.by == "hardware" else "unknown cluster")


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestPlan:
    """What is read, and how."""

    inputs: tuple[Input, ...]
    windows: WindowPlan
    scope: Scope = field(default_factory=Scope)
    runs: Mapping[str, tuple[NodeRun, ...]] = field(default_factory=dict)  # per store folder


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWindows:
    """The windows of one file and one size; `run` is a place in `runs`."""

    runs: tuple[str, ...]
    scopes: tuple[str, ...]  # per run
    run: NDArray[np.int32]
    start_s: NDArray[np.float64]
    values: NDArray[np.float32]  # windows x groups


@dataclass(slots=True, kw_only=True)
class Ingested:
    """A partial result: of a part, of several, of all."""

    windows: list[list[RunWindows]]  # per window size, in the order of the files
    sketches: dict[Key, Sketch] = field(default_factory=dict)
    hosts: dict[tuple[str, int], Sketch] = field(default_factory=dict)  # host, group: coarse
    seen: Reading = field(default_factory=Reading)
    unmapped: Counter[str] = field(default_factory=Counter)  # name: files
    columns: Counter[str] = field(default_factory=Counter)  # group: columns over all files
    files_with: Counter[str] = field(default_factory=Counter)  # group: files
    hardware: Counter[str] = field(default_factory=Counter)  # name: files
    periods_s: Counter[float] = field(default_factory=Counter)
    skipped: dict[str, str] = field(default_factory=dict)  # file: why
    empty_runs: Counter[str] = field(default_factory=Counter)  # reason: runs
    rows: int = 0
    files: int = 0
    size_bytes: int = 0


def ingest(
    plan: IngestPlan,
    *,
    workers: Workers | None = None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Ingested:
    """Read all files, in parts that may be read anywhere. `progress` gets bytes: done, of all."""
    parts = in_parts(plan.inputs)
    total = sum(each.size_bytes for each in plan.inputs)
    done = 0
    merged: Ingested | None = None
    early: dict[int, Ingested] = {}  # what is done before its turn
    place = 0
    for i, found in map_parts(read_part, plan, parts, workers=workers):
        early[i] = found
        done += sum(each.size_bytes for each in parts[i])
        progress(done, total)
        while place in early:
            ready = early.pop(place)
            merged = ready if merged is None else merge(merged, ready)
            place += 1
    if merged is None:
        raise StewardError("there is nothing to read", hint="name files or folders with telemetry")
    if not merged.files:
        raise _nothing_read(merged)
    return merged


def _nothing_read(found: Ingested) -> StewardError:
    where, why = next(iter(found.skipped.items()))
    others = len(found.skipped) - 1
    return StewardError(
        f"{why}" + (f"; {others} more files cannot be used either" if others else ""),
        where=where,
        hint="wide tables have a time and a column per metric; `steward learn baskets --help`",
    )


def read_part(plan: IngestPlan, part: Sequence[Input]) -> Ingested:
    """Read some files; one that cannot be read is named and left out."""
    found = _nothing(plan)
    for each in part:
        try:
            windows = _read(each, plan, found.seen)
        except StewardError as fault:
            if len(found.skipped) < _MOST_NAMED:
                found.skipped[each.path] = fault.problem
            found.seen.count("files that cannot be used", each.path)
            continue
        _take(found, each, windows, plan)
    return found


def _nothing(plan: IngestPlan) -> Ingested:
    return Ingested(windows=[[] for _ in plan.windows.windows_s])


def _read(each: Input, plan: IngestPlan, seen: Reading) -> FileWindows:
    if each.hour < 0:
        return read_windows(each.path, plan.windows, seen)
    return read_hour(Path(each.path), each.hour, plan.windows, plan.runs.get(each.path, ()), seen)


def _take(found: Ingested, each: Input, file: FileWindows, plan: IngestPlan) -> None:
    found.files += 1
    found.rows += file.rows
    found.size_bytes += each.size_bytes
    found.hardware[file.hardware] += 1
    if file.period_s:
        found.periods_s[float(f"{file.period_s:.2g}")] += 1
    for group, count in zip(plan.windows.groups, file.columns, strict=True):
        found.columns[group.name] += count
        found.files_with[group.name] += count > 0
    found.unmapped.update(file.unmapped[: max(0, _MOST_NAMED - len(found.unmapped))])
    for size, windows in enumerate(file.windows):
        used = np.unique(windows.run)
        window_s = plan.windows.windows_s[size]
        short = len(file.runs) - len(used)
        if short:
            found.empty_runs[f"no full window of {window_s:g} s"] += short
        if not len(used):
            continue
        names = tuple(file.runs[i] or each.run for i in used)
        hosts = [file.hosts[i] for i in used]
        run = np.searchsorted(used, windows.run).astype(np.int32)
        begin = np.asarray(file.begin_s)[windows.run]
        kept = RunWindows(
            runs=names,
            scopes=tuple(plan.scope.of(host, file.hardware) for host in hosts),
            run=run,
            start_s=begin + windows.number * window_s,
            values=windows.values,
        )
        found.windows[size].append(kept)
        _sketch(found, size, kept)
        if not size:
            _sketch_hosts(found, kept, hosts)


def _sketch(found: Ingested, size: int, windows: RunWindows) -> None:
    for scope, rows in by_name(windows.scopes, windows.run):
        for group in range(windows.values.shape[1]):
            sketch = sketch_of(windows.values[rows, group])
            if sketch.total:
                _merge_into(found.sketches, (size, scope, group), sketch)


def by_name(
    names: Sequence[str], run: NDArray[np.int32]
) -> Iterator[tuple[str, slice | NDArray[np.bool_]]]:
    """Yield each name that runs have, and the windows of these runs."""
    different = sorted({*names})
    of = np.array([0]) if len(different) == 1 else np.asarray(names)
    for name in different:
        yield name, slice(None) if len(different) == 1 else (of == name)[run]


def _sketch_hosts(found: Ingested, windows: RunWindows, hosts: Sequence[str]) -> None:
    for host, rows in islice(by_name(hosts, windows.run), _MOST_HOSTS):
        for group in range(windows.values.shape[1]):
            sketch = sketch_of(windows.values[rows, group], limit=_COARSE)
            if sketch.total:
                _merge_into(found.hosts, (host, group), sketch)


def _merge_into(sketches: dict[Any, Sketch], key: object, sketch: Sketch) -> None:
    there = sketches.get(key)
    sketches[key] = sketch if there is None else merge_sketches(there, sketch)


def merge(one: Ingested, other: Ingested) -> Ingested:
    """Add a later partial result to an earlier one."""
    for mine, more in zip(one.windows, other.windows, strict=True):
        mine.extend(more)
    for key, sketch in other.sketches.items():
        _merge_into(one.sketches, key, sketch)
    for host, sketch in other.hosts.items():
        if host in one.hosts or len(one.hosts) < _MOST_HOSTS * 4:
            _merge_into(one.hosts, host, sketch)
    one.seen.faults.update(other.seen.faults)
    for fault, example in other.seen.examples.items():
        one.seen.examples.setdefault(fault, example)
    one.unmapped.update(other.unmapped)
    one.columns.update(other.columns)
    one.files_with.update(other.files_with)
    one.hardware.update(other.hardware)
    one.empty_runs.update(other.empty_runs)
    one.periods_s.update(other.periods_s)
    one.skipped |= other.skipped
    one.rows += other.rows
    one.files += other.files
    one.size_bytes += other.size_bytes
    return one


def value_names(plan: IngestPlan) -> tuple[str, ...]:
    """Return what the columns of `RunWindows.values` are."""
    return group_names(plan.windows.groups, plan.windows.statistics)
