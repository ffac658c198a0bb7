"""Gavel and Shockwave: jobs say how many steps they take; a table says how fast a V100 is.

`duration_s` is `total_steps` over the measured speed alone at the job's scale factor. Where that
size was not measured, the largest smaller one that was is taken.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from steward.errors import StewardError
from steward.model.trace import Trace
from steward.sim.traces.cells import number, text
from steward.sim.traces.formats.assemble import trace_from
from steward.sim.traces.selection import picked
from steward.sim.traces.source import TraceHead, TraceReader, TraceSource
from steward.sim.traces.table import TraceTable, collected, read_table

__all__ = ["GAVEL", "GAVEL_MSR", "SHOCKWAVE"]

_COLUMNS = ("job_id", "job_type", "total_steps", "scale_factor", "arrival_s")
_BATCH = r"batch size (\d+)"


def read_gavel(source: TraceSource) -> Trace:
    """Read one of the traces that Gavel ran on its physical cluster."""
    return _read_steps(source, reader="gavel", more={"priority": number("priority_weight")})


def read_msr(source: TraceSource) -> Trace:
    """Read Philly's virtual clusters as Gavel mapped them to models; tenants are those clusters."""
    own_id = pl.concat_str(text("vc"), pl.lit("/"), text("job_id"))
    job_id = text("job_id") if "vc" in source.picks else own_id
    return _read_steps(source, reader="gavel-msr", more={"tenant": text("vc"), "job_id": job_id})


def read_shockwave(source: TraceSource) -> Trace:
    """Read one of Shockwave's traces; its durations are given."""
    table = read_table(source.path)
    cells = _common() | {"duration_s": number("duration_s"), "deadline_s": _bound("slo")}
    return trace_from(table, source, reader="shockwave", rows=picked(table, source), cells=cells)


def _common() -> dict[str, pl.Expr]:
    return {
        "job_id": text("job_id"),
        "submit_s": number("arrival_s"),
        "gpus": number("scale_factor"),
        "model": text("job_type"),
        "batch": pl.col("job_type").str.extract(_BATCH, 1).cast(pl.Float64),
    }


def _bound(column: str) -> pl.Expr:
    """Return a deadline; Gavel writes -1 for none."""
    value = number(column)
    return pl.when(value >= 0).then(value)


def _read_steps(source: TraceSource, *, reader: str, more: dict[str, pl.Expr]) -> Trace:
    table = read_table(source.path)
    speeds = _speeds(source.path.with_name("throughputs_solo.csv.gz"))
    rows = (
        picked(table, source)
        .with_columns(number("scale_factor").alias("_size"))
        .sort("_size", maintain_order=True)
        .join_asof(
            speeds,
            left_on="_size",
            right_on="measured",
            by="job_type",
            strategy="backward",
            check_sortedness=False,
            coalesce=False,
        )
        .sort("_row", maintain_order=True)
    )
    cells = _common() | {"duration_s": number("total_steps") / pl.col("steps_per_s")}
    if "slo" in table.columns:
        cells["deadline_s"] = _bound("slo")
    return trace_from(
        table,
        source,
        reader=reader,
        rows=rows,
        cells=cells | more,
        leave_out=(
            ("the speed of its job type was never measured", pl.col("steps_per_s").is_null()),
        ),
        mended=(
            (
                "not measured at that scale factor: the next smaller one is taken",
                pl.col("measured") < pl.col("_size"),
            ),
        ),
    )


def _speeds(path: Path) -> pl.LazyFrame:
    """Return job type, scale factor and steps per second on V100, sorted by scale factor."""
    if not path.is_file():
        hint = "Gavel's throughputs_solo.csv.gz must lie beside the jobs"
        raise StewardError("the table of speeds is not there", where=str(path), hint=hint)
    table: TraceTable = read_table(path)
    speeds = table.scan.filter(pl.col("worker_type") == "v100").select(
        "job_type",
        number("scale_factor").alias("measured"),
        number("steps_per_s").alias("steps_per_s"),
    )
    return collected(speeds.sort("measured"), where=str(path)).lazy()


def _has_steps(head: TraceHead) -> bool:
    return head.has(*_COLUMNS)


GAVEL = TraceReader(
    name="gavel",
    about="Gavel: trace, job_id, job_type, total_steps, scale_factor, …, arrival_s",
    recognises=lambda head: _has_steps(head) and head.has("trace") and not head.has("duration_s"),
    read=read_gavel,
    needs=(*_COLUMNS, "priority_weight"),
    picks={"trace": "max_min_fairness"},
)
GAVEL_MSR = TraceReader(
    name="gavel-msr",
    about="Gavel's form of Philly: seed, vc, job_id, job_type, total_steps, scale_factor, …",
    recognises=lambda head: _has_steps(head) and head.has("seed", "vc"),
    read=read_msr,
    needs=("seed", "vc", *_COLUMNS),
    picks={"seed": "0", "vc": ""},
)
SHOCKWAVE = TraceReader(
    name="shockwave",
    about="Shockwave: trace, job_id, job_type, total_steps, scale_factor, mode, duration_s, …",
    recognises=lambda head: _has_steps(head) and head.has("trace", "mode", "duration_s"),
    read=read_shockwave,
    needs=(*_COLUMNS, "duration_s", "slo"),
    picks={"trace": "120"},
)
