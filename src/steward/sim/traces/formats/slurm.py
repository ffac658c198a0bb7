"""Slurm accounting: `sacct --parsable2` with its header, columns in any order.

A job holds what it was given (`AllocTRES`), or asked for where that is empty. Steps
(`123.batch`) are parts of their job. `Start` says when the site itself started it.
"""

from __future__ import annotations

import polars as pl

from steward.errors import StewardError
from steward.model.trace import Trace
from steward.sim.traces import cells
from steward.sim.traces.cells import clock_s, number, text
from steward.sim.traces.formats.assemble import trace_from
from steward.sim.traces.selection import picked
from steward.sim.traces.source import TraceHead, TraceReader, TraceSource
from steward.sim.traces.table import TraceTable, read_table

__all__ = ["SACCT", "SACCT_COMMAND"]

SACCT_COMMAND = (
    "sacct --allusers --parsable2 --format="
    "JobID,JobName,User,Account,Submit,Start,ElapsedRaw,Timelimit,State,AllocTRES"
)
_TRES = ("AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES")
_OPEN = ("RUNNING", "PENDING", "REQUEUED", "RESIZING", "SUSPENDED")
_UNIT_BYTES = {"": 2.0**20, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}


def read_sacct(source: TraceSource) -> Trace:
    """Read an accounting dump."""
    table = read_table(source.path, separator="|", quotes=False)
    there = [column for column in _TRES if column in table.columns]
    if not there:
        raise _lacks(table, f"GPUs: it has none of {', '.join(_TRES)}")
    job = {
        "job_id": text("JobID"),
        "submit_s": cells.time_s(table, "Submit"),
        "duration_s": _ran_s(table),
        "gpus": pl.coalesce(*(_gpus(column) for column in there), pl.lit(0.0)),
        "gpu_type": pl.coalesce(*(_gpu_type(column) for column in there)),
    }
    state = text("State").str.to_uppercase() if "State" in table.columns else pl.lit("")
    return trace_from(
        table,
        source,
        reader="sacct",
        rows=picked(table, source),
        cells=job | _more(table, there),
        zoned=cells.zoned(table, "Submit"),
        leave_out=(
            ("a step, which is part of its job", pl.col("JobID").str.contains(r"\.")),
            ("still running or waiting", state.str.contains(f"^({'|'.join(_OPEN)})")),
        ),
    )


def _lacks(table: TraceTable, what: str) -> StewardError:
    return StewardError(f"says nothing about {what}", where=str(table.path), hint=SACCT_COMMAND)


def _ran_s(table: TraceTable) -> pl.Expr:
    if "ElapsedRaw" in table.columns:
        return number("ElapsedRaw")
    if "Elapsed" in table.columns:
        return clock_s("Elapsed")
    if {"Start", "End"} <= set(table.columns):
        return cells.time_s(table, "End") - cells.time_s(table, "Start")
    raise _lacks(table, "run times: it has none of ElapsedRaw, Elapsed, Start and End")


def _gpus(column: str) -> pl.Expr:
    """Return the GPUs in a list of resources; null where it names none.

    `gres/gpu=4` counts all; `gres/gpu:a100=4` counts one type. Old lists say `gpu:4`.
    """
    told = pl.col(column)
    if column.endswith("TRES"):
        every = told.str.extract(r"(?:^|,)gres/gpu=(\d+)", 1).cast(pl.Float64)
        typed = told.str.extract_all(r"gres/gpu:[^=,]+=\d+").list.eval(
            pl.element().str.extract(r"=(\d+)$", 1).cast(pl.Float64)
        )
        return pl.coalesce(every, pl.when(typed.list.len() > 0).then(typed.list.sum()))
    return told.str.extract(r"gpu(?::[^:,(]+)?:(\d+)", 1).cast(pl.Float64)


def _gpu_type(column: str) -> pl.Expr:
    form = r"gres/gpu:([^=,]+)=" if column.endswith("TRES") else r"gpu:([^:,(]*[^:,(\d][^:,(]*):"
    return pl.col(column).str.extract(form, 1)


def _more(table: TraceTable, tres: list[str]) -> dict[str, pl.Expr]:
    """Return what else the dump has, under the names of a trace."""
    has = set(table.columns)
    found: dict[str, pl.Expr] = {}
    for name, columns in (("user", ("User", "UID")), ("tenant", ("Account", "Partition"))):
        known = [text(column) for column in columns if column in has]
        if known:
            found[name] = pl.coalesce(*known)
    if "JobName" in has:
        found["model"] = text("JobName")
    if "State" in has:
        found["cut_off"] = cells.cut_off("State")
    if "Priority" in has:
        found["priority"] = number("Priority")
    if "Dependency" in has:
        ids = pl.col("Dependency").str.extract_all(r"\d+(?:_\d+)?").list.join(";")
        found["after"] = pl.when(ids != "").then(ids)
    found |= _times(table)
    found["cpus"] = pl.coalesce(*_cpus(has, tres))
    found["memory_bytes"] = pl.coalesce(*_memory_bytes(has, tres))
    return found


def _times(table: TraceTable) -> dict[str, pl.Expr]:
    """Return how long jobs waited at the site, and their time limits, where the dump has them."""
    found: dict[str, pl.Expr] = {}
    if "Start" in table.columns:
        wait_s = cells.time_s(table, "Start") - cells.time_s(table, "Submit")
        found["wait_s"] = pl.when(wait_s >= 0).then(wait_s)
    if "TimelimitRaw" in table.columns:
        found["time_limit_s"] = 60.0 * _known(number("TimelimitRaw"))
    elif "Timelimit" in table.columns:
        found["time_limit_s"] = _known(clock_s("Timelimit"))
    return found


def _known(value: pl.Expr) -> pl.Expr:
    """Return a limit, or null where Slurm says UNLIMITED or Partition_Limit."""
    return pl.when(value.is_finite()).then(value)


def _cpus(has: set[str], tres: list[str]) -> list[pl.Expr]:
    lists = [column for column in tres if column.endswith("TRES")]
    told = [pl.col(c).str.extract(r"(?:^|,)cpu=(\d+)", 1).cast(pl.Float64) for c in lists]
    told += [number(c) for c in ("AllocCPUS", "NCPUS", "ReqCPUS") if c in has]
    return [*told, pl.lit(None, pl.Float64)]


def _memory_bytes(has: set[str], tres: list[str]) -> list[pl.Expr]:
    lists = [column for column in tres if column.endswith("TRES")]
    told = [_bytes(pl.col(c).str.extract(r"(?:^|,)mem=([\d.]+[KMGT]?)", 1)) for c in lists]
    if "ReqMem" in has:
        asked = pl.col("ReqMem").str.strip_chars()
        size = _bytes(asked.str.extract(r"^([\d.]+[KMGT]?)[nc]?$", 1))
        nodes = number("NNodes") if "NNodes" in has else pl.lit(1.0)
        cpus = number("ReqCPUS") if "ReqCPUS" in has else pl.lit(1.0)
        times = pl.when(asked.str.ends_with("n")).then(nodes).when(asked.str.ends_with("c"))
        told.append(size * times.then(cpus).otherwise(1.0))
    return [*told, pl.lit(None, pl.Float64)]


def _bytes(word: pl.Expr) -> pl.Expr:
    amount = word.str.extract(r"^([\d.]+)", 1).cast(pl.Float64, strict=False)
    unit = word.str.extract(r"([KMGT]?)$", 1)
    return amount * unit.replace_strict(_UNIT_BYTES, default=None, return_dtype=pl.Float64)


def _is_sacct(head: TraceHead) -> bool:
    timed = head.has("ElapsedRaw") or head.has("Elapsed") or head.has("Start", "End")
    return head.has("JobID", "Submit") and timed


SACCT = TraceReader(
    name="sacct",
    about="Slurm sacct --parsable2: JobID, Submit, Elapsed or ElapsedRaw, State, AllocTRES, …",
    recognises=_is_sacct,
    read=read_sacct,
    needs=("JobID", "Submit"),
)
