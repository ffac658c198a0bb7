"""Logs of Slurm clusters that were published as tables: Helios and Acme."""

from __future__ import annotations

import polars as pl

from steward.model.trace import Trace
from steward.sim.traces import cells
from steward.sim.traces.cells import number, text
from steward.sim.traces.formats.assemble import trace_from
from steward.sim.traces.selection import picked
from steward.sim.traces.source import TraceReader, TraceSource
from steward.sim.traces.table import TraceTable, read_table

__all__ = ["ACME", "HELIOS"]

GB = 1e9
_COLUMNS = ("job_id", "user", "gpu_num", "state", "submit_time", "duration")
# What columns say beyond the essentials; a log has some of them.
_MORE = {
    "user": "user",
    "tenant": "vc",
    "cpus": "cpu_num",
    "model": "jobname",
    "gpu_type": "gpu_type",
}


def read_helios(source: TraceSource) -> Trace:
    """Read a Helios `cluster_log.csv`; tenants are virtual clusters."""
    return _read(source, reader="helios", more=_MORE)


def read_acme(source: TraceSource) -> Trace:
    """Read an Acme `trace_seren.csv` or `trace_kalos.csv`; the kind of work stands for a model."""
    return _read(source, reader="acme", more=_MORE | {"model": "type"})


def _read(source: TraceSource, *, reader: str, more: dict[str, str]) -> Trace:
    table = read_table(source.path)
    columns = {
        name: number(column) if name == "cpus" else text(column)
        for name, column in more.items()
        if column in table.columns
    }
    ran_s, differs = _ran_s(table)
    if "mem_per_pod_GB" in table.columns:
        columns["memory_bytes"] = number("mem_per_pod_GB", scale=GB) * _nodes(table)
    return trace_from(
        table,
        source,
        reader=reader,
        rows=picked(table, source),
        cells={
            "job_id": text("job_id"),
            "submit_s": cells.time_s(table, "submit_time"),
            "duration_s": ran_s,
            "gpus": number("gpu_num"),
        }
        | columns,
        zoned=cells.zoned(table, "submit_time"),
        mended=(("duration is not end - start: end - start is taken", differs),),
    )


def _nodes(table: TraceTable) -> pl.Expr:
    return number("node_num") if "node_num" in table.columns else pl.lit(1.0)


def _ran_s(table: TraceTable) -> tuple[pl.Expr, pl.Expr]:
    """Return run times and where the column `duration` says otherwise (Kalos counts waiting)."""
    said = number("duration")
    if not {"start_time", "end_time"} <= set(table.columns):
        return said, pl.lit(value=False)
    seen = cells.time_s(table, "end_time") - cells.time_s(table, "start_time")
    usable = seen.is_finite() & (seen >= 0)
    return (
        pl.when(usable).then(seen).otherwise(said),
        (usable & said.is_finite() & ((seen - said).abs() > 1.0)),
    )


HELIOS = TraceReader(
    name="helios",
    about="Helios cluster_log.csv: job_id, user, vc, gpu_num, …, submit_time, start_time, end_time",
    recognises=lambda head: head.has("vc", *_COLUMNS),
    read=read_helios,
    needs=_COLUMNS,
    picks={"vc": ""},
)
ACME = TraceReader(
    name="acme",
    about="Acme trace_seren.csv, trace_kalos.csv: job_id, user, gpu_num, type, submit_time, …",
    recognises=lambda head: head.has("type", *_COLUMNS),
    read=read_acme,
    needs=_COLUMNS,
)
