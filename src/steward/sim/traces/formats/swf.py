"""Standard Workload Format: 18 numbers a line, `;` before remarks, -1 for unknown.

It knows processors, not GPUs: a processor is taken as a GPU.
"""

from __future__ import annotations

import re

import polars as pl

from steward.model.trace import Trace
from steward.sim.traces.formats.assemble import trace_from
from steward.sim.traces.source import TraceHead, TraceReader, TraceSource
from steward.sim.traces.table import EXTRA, ROW, TraceTable, read_table

__all__ = ["SWF"]

_COLUMNS = (
    "job",
    "submit_s",
    "wait_s",
    "run_s",
    "processors",
    "cpu_s",
    "memory_kb",
    "asked_processors",
    "asked_s",
    "asked_memory_kb",
    "status",
    "user",
    "group",
    "application",
    "queue",
    "partition",
    "preceding",
    "think_s",
)
_KIB = 2.0**10


def read_swf(source: TraceSource) -> Trace:
    """Read a workload log."""
    lines = read_table(source.path, separator="\x01", columns=("line",), comment=";", quotes=False)
    words = pl.col("line").str.strip_chars().str.replace_all(r"\s+", " ")
    cut = words.str.split_exact(" ", len(_COLUMNS)).struct.rename_fields([*_COLUMNS, EXTRA])
    rows = lines.scan.select(ROW, cut.alias("cells")).unnest("cells")
    rows = rows.with_columns(pl.col("job").replace("", None))
    processors = pl.coalesce(_known("asked_processors"), _known("processors"))
    table = TraceTable(
        path=source.path,
        columns=_COLUMNS,
        scan=rows,
        first_line=lines.first_line,
        comment=";",
    )
    per_processor = pl.coalesce(_known("asked_memory_kb"), _known("memory_kb"))
    return trace_from(
        table,
        source,
        reader="swf",
        rows=rows if source.limit is None else rows.head(source.limit),
        cells={
            "job_id": pl.col("job"),
            "submit_s": _number("submit_s"),
            "duration_s": _known("run_s"),
            "gpus": processors,
            "user": _label("user", "u"),
            "tenant": _label("group", "g"),
            "model": _label("application", "app"),
            "wait_s": _known("wait_s"),
            "time_limit_s": _known("asked_s"),
            "memory_bytes": per_processor * processors * _KIB,
            "after": pl.when(_known("preceding") > 0).then(pl.col("preceding")),
        },
        mended=(("processors are taken as GPUs", pl.lit(value=True)),),
    )


def _number(column: str) -> pl.Expr:
    cell = pl.col(column)
    return pl.when(cell.is_not_null()).then(
        cell.cast(pl.Float64, strict=False).fill_null(float("nan"))
    )


def _known(column: str) -> pl.Expr:
    value = _number(column)
    return pl.when(value != -1).then(value)


def _label(column: str, mark: str) -> pl.Expr:
    """Name a number, so that user 3 and group 3 are not the same word."""
    return pl.when(_known(column).is_finite()).then(pl.concat_str(pl.lit(mark), pl.col(column)))


def _is_swf(head: TraceHead) -> bool:
    lines = head.begins.decode("utf-8", "replace").splitlines()[:200]
    rows = [line.split() for line in lines if line.strip() and not line.lstrip().startswith(";")]
    if not rows:
        return head.path.name.removesuffix(".gz").endswith(".swf")
    number = re.compile(r"-?\d+(\.\d+)?$")
    return len(rows[0]) == len(_COLUMNS) and all(number.match(word) for word in rows[0])


SWF = TraceReader(
    name="swf",
    about="Standard Workload Format (.swf): 18 numbers a line, processors are taken as GPUs",
    recognises=_is_swf,
    read=read_swf,
)
