"""Plain CSV or Parquet: `job_id, submit_s, duration_s, gpus` and whatever else is known.

Units are told from the end of a column's name (`duration_h`, `submit_min`, `memory_gib`), and
common other words for the same thing are understood (`num_gpus`, `vc`, `run_time`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from steward.errors import StewardError, did_you_mean
from steward.model.trace import RowFault, Trace
from steward.sim.traces import cells
from steward.sim.traces.formats.assemble import trace_from
from steward.sim.traces.selection import picked
from steward.sim.traces.source import TraceHead, TraceReader, TraceSource
from steward.sim.traces.table import EXTRA, ROW, TraceTable, read_table

__all__ = ["PARQUET", "PLAIN", "ColumnMatch", "matches"]

_TIME_UNITS = {
    "ns": 1e-9, "us": 1e-6, "ms": 1e-3,
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hr": 3600.0, "hrs": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86400.0, "day": 86400.0, "days": 86400.0,
}  # fmt: skip
_MEMORY_UNITS = {
    "bytes": 1.0, "byte": 1.0, "b": 1.0,
    "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
    "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40,
}  # fmt: skip
# The words for each column of a trace, best first.
_WORDS = {
    "job_id": ("job_id", "jobid", "job", "id", "name"),
    "submit_s": ("submit", "submit_time", "submitted_time", "submitted", "submission_time",
                 "arrival", "arrival_time"),
    "duration_s": ("duration", "run_time", "runtime", "service_time", "elapsed", "walltime"),
    "gpus": ("gpus", "num_gpus", "gpu_num", "num_gpu", "n_gpus", "ngpus", "gpu_count",
             "scale_factor", "num_replicas"),
    "user": ("user", "username", "user_id", "user_name"),
    "tenant": ("tenant", "vc", "account", "project", "team", "group"),
    "gpu_type": ("gpu_type", "gpu_model", "gpu_spec"),
    "cpus": ("cpus", "num_cpus", "cpu_num", "num_cpu", "n_cpus", "ncpus"),
    "memory_bytes": ("memory", "mem"),
    "model": ("model", "model_name", "application", "job_type", "job_name", "jobname"),
    "batch": ("batch", "batch_size"),
    "priority": ("priority",),
    "deadline_s": ("deadline",),
    "checkpoint_s": ("checkpoint",),
    "time_limit_s": ("time_limit", "timelimit"),
    "wait_s": ("wait", "wait_time", "waiting_time"),
    "after": ("after", "depends_on", "dependency"),
}  # fmt: skip
_NEEDED = ("submit_s", "duration_s", "gpus")
_UNITS = {
    "submit_s": _TIME_UNITS,
    "duration_s": _TIME_UNITS,
    "deadline_s": _TIME_UNITS,
    "checkpoint_s": _TIME_UNITS,
    "time_limit_s": _TIME_UNITS,
    "wait_s": _TIME_UNITS,
    "memory_bytes": _MEMORY_UNITS,
}
_NAMES = ("job_id", "user", "tenant", "gpu_type", "model", "after")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMatch:
    """A column of a file that says a column of a trace, in units of `scale`."""

    column: str
    scale: float = 1.0
    unit: str = ""


def matches(columns: Iterable[str], *, where: str) -> dict[str, ColumnMatch]:
    """Return which column says what. The same thing in two units is refused."""
    there = {re.sub(r"[\s\-.]+", "_", column.strip().lower()): column for column in columns}
    found: dict[str, ColumnMatch] = {}
    for wanted, words in _WORDS.items():
        taken = {match.column for match in found.values()}
        for word in words:
            same = [m for m in _said(word, _UNITS.get(wanted, {}), there) if m.column not in taken]
            if len(same) > 1:
                both = " and ".join(f"'{match.column}'" for match in same)
                problem = f"{both} say the same in different units"
                raise StewardError(problem, where=where, hint="leave one of them out")
            if same:
                found[wanted] = same[0]
                break
    return found


def _said(word: str, units: dict[str, float], there: dict[str, str]) -> list[ColumnMatch]:
    same = [ColumnMatch(column=there[word])] if word in there else []
    ends = {f"{word}_{unit}": (unit, scale) for unit, scale in units.items()}
    return same + [
        ColumnMatch(column=there[name], scale=scale, unit=unit)
        for name, (unit, scale) in ends.items()
        if name in there
    ]


def read_plain(source: TraceSource) -> Trace:
    """Read a CSV with plain columns."""
    return _read(read_table(source.path), source)


def read_parquet(source: TraceSource) -> Trace:
    """Read a Parquet file with plain columns."""
    where = str(source.path)
    try:
        scan = pl.scan_parquet(source.path, glob=False)
        schema = scan.collect_schema()
    except (OSError, pl.exceptions.PolarsError) as fault:
        said = str(fault).splitlines()[0][:200]
        raise StewardError(f"cannot be read: {said}", where=where, hint="is it whole?") from None
    words = [_as_words(name, kind) for name, kind in schema.items() if not kind.is_nested()]
    rows = scan.select(words).with_columns(pl.lit(None, pl.String).alias(EXTRA)).with_row_index(ROW)
    columns = tuple(expression.meta.output_name() for expression in words)
    return _read(_RowsOnly(path=source.path, columns=columns, scan=rows), source)


class _RowsOnly(TraceTable):
    """A table without lines: rows are told by their place and what they say."""

    def lines(self, rows: list[int]) -> dict[int, str]:
        return {row: f"row {row + 1}" for row in rows}


def _as_words(name: str, kind: pl.DataType) -> pl.Expr:
    column = pl.col(name)
    if isinstance(kind, pl.Datetime):
        return (column.dt.epoch("us") / 1e6).cast(pl.String)
    if isinstance(kind, pl.Duration):
        return (column.dt.total_microseconds() / 1e6).cast(pl.String)
    return column.cast(pl.String, strict=False)


def _read(table: TraceTable, source: TraceSource) -> Trace:
    where = str(source.path)
    found = matches(table.columns, where=where)
    lacking = [column for column in _NEEDED if column not in found]
    if lacking:
        raise _wrong_columns(table, lacking)
    made_up = next((r for r in table.remarks if r.startswith("synthetic")), "")
    return trace_from(
        table,
        source,
        reader="plain",
        rows=picked(table, source),
        cells={column: _cell(table, column, match) for column, match in found.items()},
        zoned=cells.zoned(table, found["submit_s"].column),
        notes=_remarks(found),
        synthetic=bool(made_up),
    )


def _cell(table: TraceTable, wanted: str, match: ColumnMatch) -> pl.Expr:
    if wanted == "after":
        return cells.text(match.column).str.replace_all(r"[,\s]+", ";")
    if wanted in _NAMES:
        return cells.text(match.column)
    if wanted == "submit_s":
        return cells.time_s(table, match.column, scale=match.scale)
    if wanted in _UNITS and wanted != "memory_bytes":
        return cells.span_s(table, match.column, scale=match.scale)
    return cells.number(match.column, scale=match.scale)


def _remarks(found: dict[str, ColumnMatch]) -> tuple[RowFault, ...]:
    notes = [] if "job_id" in found else ["no column for job_id: rows are numbered from 0"]
    memory = found.get("memory_bytes")
    if memory is not None and not memory.unit:
        notes.append(f"'{memory.column}' has no unit: taken as bytes")
    return tuple(RowFault(reason=note, rows=0, kept=True) for note in notes)


def _wrong_columns(table: TraceTable, lacking: list[str]) -> StewardError:
    there = ", ".join(table.columns[:30])
    problem = f"lacks {' and '.join(lacking)}; its columns are: {there or 'none'}"
    near = [
        f"for {column} {nearest}"
        for column in lacking
        for word in (column, *_WORDS[column])
        if (nearest := did_you_mean(word, table.columns))
    ]
    hint = near[0] + " Rename it." if near else "needed: job_id, submit_s, duration_s, gpus"
    return StewardError(problem, where=str(table.path), hint=f"{hint} (see docs/traces.md)")


def _is_plain(head: TraceHead) -> bool:
    if head.begins.startswith(b"PAR1"):
        return False
    found = matches(head.columns, where=str(head.path))
    return all(column in found for column in _NEEDED)


PLAIN = TraceReader(
    name="plain",
    about="CSV: job_id, submit_s, duration_s, gpus and optional columns",
    recognises=_is_plain,
    read=read_plain,
)
PARQUET = TraceReader(
    name="parquet",
    about="Parquet with the plain columns",
    recognises=lambda head: head.begins.startswith(b"PAR1"),
    read=read_parquet,
)
