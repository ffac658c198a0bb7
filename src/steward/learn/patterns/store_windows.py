"""One hour of a recorded telemetry folder as windows of groups, per node or per run on a node.

Windows begin anew with each hour, so that hours can be read anywhere and in any order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.learn.patterns.column_names import read_names
from steward.learn.patterns.combining import Combiner
from steward.learn.patterns.file_windows import FileWindows, WindowPlan, finished, hardware_of
from steward.learn.patterns.groups import Selection, select_columns
from steward.learn.patterns.table_blocks import Reading
from steward.learn.patterns.window_fold import WindowFold, usual_step
from steward.model.frame import ENTITY, T_S
from steward.model.span import Span
from steward.store.files.damage import NoteOnly, panics_as_errors
from steward.store.files.parquet import (
    HOUR_S,
    Partitions,
    TableSchema,
    columns_of,
    lazy_scan,
    live_files,
)
from steward.store.files.spans import read_spans

__all__ = ["NodeRun", "hours_of", "is_store", "node_runs", "read_hour"]

_SCHEMA = TableSchema()
_BLOCK_VALUES = 16 << 20
_NODE = "\0node"
_KINDS = ("run", "job")  # of spans that divide a node's time; the first that is there


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRun:
    """A stretch of a node's time with a name, as a run or a job has it."""

    node: str
    name: str
    from_s: float
    to_s: float
    label: str = ""


def is_store(folder: Path) -> bool:
    """Return whether a folder is what `steward observe record` or `import` writes."""
    return any((folder / "telemetry").glob("date=*"))


def hours_of(folder: Path) -> list[tuple[int, int]]:
    """Return the hours with telemetry, counted since 1970, and the bytes of their files."""
    parts = Partitions(folder / "telemetry")
    found = []
    for number in parts.between(0.0, float("inf")):
        files = live_files(parts.folder(number), _SCHEMA, NoteOnly(_ignore))
        found.append((number, sum(file.stat().st_size for file in files)))
    return [(number, size) for number, size in found if size]


def _ignore(_text: str) -> None: ...


def node_runs(folder: Path) -> tuple[NodeRun, ...]:
    """Return the runs, or else the jobs, that spans of a folder mark on its nodes."""
    spans = [span for span in read_spans(folder, _ignore) if "/" not in span.entity]
    kind = next((kind for kind in _KINDS if any(span.kind == kind for span in spans)), "")
    chosen = [span for span in spans if span.kind == kind and kind]
    nodes: dict[str, set[str]] = {}
    for span in chosen:
        nodes.setdefault(span.name, set()).add(_node(span))
    return tuple(
        NodeRun(
            node=_node(span),
            name=span.name if len(nodes[span.name]) == 1 else f"{span.name}/{_node(span)}",
            from_s=span.from_s,
            to_s=span.to_s if span.to_s is not None else np.inf,
            label=str(span.about.get("workload", "")),
        )
        for span in sorted(chosen, key=lambda span: (_node(span), span.from_s, span.name))
    )


def _node(span: Span) -> str:
    return span.entity.partition("@")[0]


def read_hour(
    folder: Path, hour: int, plan: WindowPlan, runs: Sequence[NodeRun], seen: Reading
) -> FileWindows:
    """Read an hour of all nodes, as many at a time as fit into memory."""
    note = NoteOnly(lambda text: seen.count("files that are broken", text))
    files = live_files(Partitions(folder / "telemetry").folder(hour), _SCHEMA, note)
    names = sorted({name for file in files for name in columns_of(file, _SCHEMA)})
    columns = read_names(names)
    selection = select_columns(columns, plan.groups)
    fold = WindowFold(
        windows_s=plan.windows_s,
        statistics=plan.statistics,
        combine=Combiner(groups=plan.groups, members=selection.members, statistics=plan.statistics),
        columns=len(selection.columns),
        aligned_s=HOUR_S,
    )
    keys = _NodeKeys(runs=_by_node(runs))
    rows = 0
    for block in _blocks(files, selection):
        rows += len(block)
        values = np.stack([block[each.name].to_numpy() for each in selection.columns])
        run = keys.of(block)
        inside = run >= 0
        if not fold.period_s:
            entities = block[ENTITY].rank("dense").cast(pl.Int64).to_numpy()
            fold.period_s = usual_step(block[T_S].to_numpy(), entities)
        fold.add(block[T_S].to_numpy()[inside], run[inside], values.astype(np.float32)[:, inside])
    return FileWindows(
        runs=tuple(keys.names),
        hosts=tuple(keys.hosts),
        hardware=hardware_of(columns),
        begin_s=tuple(fold.begin_s),
        windows=tuple(finished(fold, plan, seen, str(folder))),
        rows=rows,
        period_s=fold.period_s,
        columns=tuple(len(places) for places in selection.members),
        unmapped=tuple(Counter(each.name for each in selection.unmapped)),
    )


def _by_node(runs: Sequence[NodeRun]) -> dict[str, list[NodeRun]]:
    found: dict[str, list[NodeRun]] = {}
    for run in runs:
        found.setdefault(run.node, []).append(run)
    return found


def _blocks(files: Sequence[Path], selection: Selection) -> Iterator[pl.DataFrame]:
    """Yield all rows of some nodes at a time, in the order of time within each node."""
    if not selection.columns or not files:
        return
    names = [each.name for each in selection.columns]
    types = {name: _SCHEMA.kind(name) for name in (*_SCHEMA.names, *names)}
    node = pl.col(ENTITY).str.extract(r"^([^/@]+)").alias(_NODE)
    known = pl.any_horizontal(pl.col(name).is_not_null() for name in names)
    on_nodes = ~pl.col(ENTITY).str.starts_with("job:") & known
    scan = lazy_scan(files, types).filter(on_nodes).with_columns(node)
    with panics_as_errors():
        counts = scan.group_by(_NODE).len().sort(_NODE).collect()
        for some in _together(counts.rows(), _BLOCK_VALUES // max(1, len(names))):
            rows = scan.filter(pl.col(_NODE).is_in(some)).collect()
            yield rows.sort(_NODE, T_S, ENTITY)


def _together(counts: Sequence[tuple[str, int]], most: int) -> Iterator[list[str]]:
    some: list[str] = []
    rows = 0
    for node, count in counts:
        if some and rows + count > most:
            yield some
            some, rows = [], 0
        some.append(node)
        rows += count
    if some:
        yield some


@dataclass(slots=True, kw_only=True)
class _NodeKeys:
    """Numbers of runs: a node, or what ran on it; -1 is between runs."""

    runs: Mapping[str, Sequence[NodeRun]]
    names: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)

    def of(self, block: pl.DataFrame) -> NDArray[np.int64]:
        nodes = block[_NODE].rle().struct.unnest()
        found, start = np.full(len(block), -1, np.int64), 0
        t_s = block[T_S].to_numpy()
        for length, node in zip(nodes["len"], nodes["value"], strict=True):
            rows = slice(start, start + length)
            found[rows] = self._on_node(str(node), t_s[rows])
            start += length
        return found

    def _on_node(self, node: str, t_s: NDArray[np.float64]) -> NDArray[np.int64]:
        runs = self.runs.get(node)
        if not self.runs:
            self._add(node, node)
            return np.full(len(t_s), len(self.names) - 1, np.int64)
        found = np.full(len(t_s), -1, np.int64)
        for run in runs or ():
            inside = (t_s >= run.from_s) & (t_s < run.to_s)
            if inside.any():
                self._add(run.name, node)
                found[inside] = len(self.names) - 1
        return found

    def _add(self, name: str, node: str) -> None:
        self.names.append(name)
        self.hosts.append(node)
