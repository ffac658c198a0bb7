"""Our own recorder's CSV of one GPU and its host, with the marks that workloads wrote.

`events.jsonl` next to the file, or named with it, has the workload and phases of each run.
A mark lasts until the next one of the same part; what comes before the first has no phase.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import polars as pl

from steward.errors import StewardError
from steward.model.event import Observation
from steward.model.metrics.columns import ColumnNames
from steward.model.span import Span
from steward.observe.importing.delimited_text import blocks
from steward.observe.importing.source import FileHead, ImportCounts, ImportSource, opened
from steward.observe.importing.table_reader import TableReader
from steward.store.files.text_headers import fields_of
from steward.store.files.time_columns import seconds

__all__ = ["H200"]

_MARKS = "events.jsonl"
_NO_PHASE = ("exit",)


@dataclass(slots=True, kw_only=True)
class _Run:
    """One run: when it had samples, and the marks that were written meanwhile."""

    from_s: float = float("inf")
    to_s: float = float("-inf")
    marks: list[Mapping[str, object]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class H200:
    """Samples by run; runs, workloads and phases as spans of the node and all its devices."""

    name: str = "h200"

    def recognises(self, head: FileHead) -> bool:
        return {"run", "t", "gpu_util", "sm_active"} <= {*fields_of(head.line)}

    def read(self, source: ImportSource, tally: ImportCounts) -> Iterator[Observation]:
        names = ColumnNames(("h200",), source.columns)
        reader = TableReader(source=source, tally=tally, names=names, ignored=("run",))
        runs: dict[str, _Run] = {}
        for table in blocks(source, tally):
            _check(table, source)
            for (run,), rows in table.partition_by(
                "run", as_dict=True, maintain_order=True
            ).items():
                yield from reader.observations(rows, series=str(run))
                _extend(runs.setdefault(str(run), _Run()), seconds(rows["t"]))
        for mark in _marks(source, tally):
            runs.setdefault(str(mark["run"]), _Run()).marks.append(mark)
        yield Observation(spans=tuple(_spans(runs, source.node)))


def _check(table: pl.DataFrame, source: ImportSource) -> None:
    missing = [name for name in ("run", "t") if name not in table.columns]
    if missing:
        raise StewardError(
            f"has no column {' and no column '.join(missing)}; it has: "
            f"{', '.join(table.columns[:-1])[:200]}",
            where=str(source.path),
            hint="name another format with --format, or leave it out to have it guessed",
        )


def _extend(run: _Run, times: pl.Series) -> None:
    good = times.drop_nulls()
    if len(good):
        run.from_s = min(run.from_s, float(good.min()))  # type: ignore[arg-type]  # Float64
        run.to_s = max(run.to_s, float(good.max()))  # type: ignore[arg-type]


def _marks(source: ImportSource, tally: ImportCounts) -> Iterator[Mapping[str, object]]:
    companions = source.companions or ((source.path.parent / _MARKS),)
    for path in companions:
        if path.exists():
            yield from _read_marks(path, tally)
        else:
            tally.note(f"no {path.name} next to {source.path.name}: phases are not known")


def _read_marks(path: Path, tally: ImportCounts) -> Iterator[Mapping[str, object]]:
    with opened(path) as stream:
        for number, line in enumerate(stream, start=1):
            try:
                mark = json.loads(line)
                usable = isinstance(mark["t"], int | float) and isinstance(mark["phase"], str)
                mark = mark if usable and "run" in mark else None
            except (ValueError, KeyError, TypeError, RecursionError):
                mark = None
            if mark is None:
                tally.refuse("a mark cannot be read", f"{path.name}, line {number}")
            else:
                yield mark


def _spans(runs: Mapping[str, _Run], node: str) -> Iterator[Span]:
    for name, run in runs.items():
        times = [run.from_s, run.to_s, *(float(str(mark["t"])) for mark in run.marks)]
        finite = [each for each in times if abs(each) != float("inf")]
        whole = Span(
            id=f"{node}:run:{name}",
            entity=node,
            kind="run",
            name=name,
            from_s=min(finite),
            to_s=max(finite) + 1e-3,  # its last sample is part of it
            source="h200",
            about=_about(run.marks),
        )
        yield from _everywhere(whole)
        workload = whole.about.get("workload", "")
        if workload:
            span_id = f"{node}:workload:{name}"
            yield from _everywhere(replace(whole, id=span_id, kind="workload", name=workload))
        yield from _phases(whole, run.marks)


def _phases(run: Span, marks: list[Mapping[str, object]]) -> Iterator[Span]:
    by_part: dict[str, list[Mapping[str, object]]] = {}
    for mark in sorted(marks, key=lambda mark: float(str(mark["t"]))):
        by_part.setdefault(str(mark.get("part", "")), []).append(mark)
    for part, own in by_part.items():
        ends = [*own, {"t": run.to_s, "phase": ""}]
        for number, (mark, following) in enumerate(pairwise(ends)):
            if mark["phase"] in _NO_PHASE:
                continue
            phase = replace(
                run,
                id=f"{run.id}:phase:{part}:{number}",
                kind="phase",
                name=str(mark["phase"]),
                from_s=float(str(mark["t"])),
                to_s=float(str(following["t"])),
                about={"part": part, **_figures(mark)},
            )
            yield from _everywhere(phase)


def _everywhere(span: Span) -> tuple[Span, Span]:
    """Return the span for the node itself, and for all that is below it."""
    return span, replace(span, id=f"{span.id}/*", entity=f"{span.entity}/*")


def _about(marks: list[Mapping[str, object]]) -> dict[str, str]:
    """Return what is known of a run as a whole: its workload, and how each part of it ended."""
    about: dict[str, str] = {}
    workloads = sorted({str(mark["workload"]) for mark in marks if mark.get("workload")})
    if workloads:
        about["workload"] = "+".join(workloads)
    exits = [mark for mark in marks if mark["phase"] == "exit"]
    for mark in exits:
        suffix = f".{mark.get('part')}" if len(exits) > 1 else ""
        about[f"exit{suffix}"] = str(mark.get("code"))
        if mark.get("stderr_tail"):
            about[f"stderr{suffix}"] = str(mark["stderr_tail"])
    return about


def _figures(mark: Mapping[str, object]) -> dict[str, str]:
    known = ("t", "run", "workload", "part", "phase")
    return {key: str(value) for key, value in mark.items() if key not in known}
