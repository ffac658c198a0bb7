"""Alibaba: openb pods and nodes (2023), PAI tasks and the PAI simulator's jobs (2020)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from steward.errors import StewardError
from steward.model.machines import Machines, machines_of
from steward.model.trace import RowFault, Trace
from steward.sim.traces.cells import divided, number, text
from steward.sim.traces.formats.assemble import trace_from
from steward.sim.traces.locate import find
from steward.sim.traces.selection import picked
from steward.sim.traces.source import TraceHead, TraceReader, TraceSource
from steward.sim.traces.table import EXTRA, ROW, TraceTable, collected, read_table

__all__ = ["OPENB", "PAI_100K", "PAI_JOBS", "PAI_TASKS", "read_nodes", "read_pods"]

MIB = 2.0**20
GIB = 2.0**30
_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_JOB_COLUMNS = ("job_id", "user", "num_gpu", "submit_time", "duration")
_TASK_COLUMNS = (
    "job_name",
    "task_name",
    "inst_num",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
    "plan_gpu",
    "gpu_type",
)
# Kubernetes' and Alibaba's classes, least patient first: a higher number goes first.
_QOS = {"LS": 2, "Guaranteed": 2, "Burstable": 1, "BE": 0}


def read_openb(source: TraceSource) -> Trace:
    """Read pods with their times, where the list has them; CPU-only pods stay."""
    table = read_table(source.path)
    if not {"creation_time", "scheduled_time", "deletion_time"} <= set(table.columns):
        return _untimed(table, source)
    return trace_from(
        table,
        source,
        reader="openb",
        rows=picked(table, source),
        cells=_pod(table)
        | {
            "submit_s": number("creation_time"),
            "duration_s": number("deletion_time") - number("scheduled_time"),
        },
        leave_out=(("the pod was never scheduled", number("scheduled_time").is_null()),),
        cpu_jobs=True,
    )


def read_pods(path: str | Path) -> Trace:
    """Read all pods of an openb list, scheduled or not, in order: for packing, none leaves."""
    place = find(path)
    return _untimed(read_table(place.path), TraceSource(path=place.path, name=place.name))


def _untimed(table: TraceTable, source: TraceSource) -> Trace:
    return trace_from(
        table,
        source,
        reader="openb",
        rows=picked(table, source),
        cells=_pod(table)
        | {"submit_s": pl.col(ROW).cast(pl.Float64), "duration_s": pl.lit(_STAY_S)},
        notes=(RowFault(reason=_NO_TIMES, rows=0, kept=True),),
        cpu_jobs=True,
    )


def _pod(table: TraceTable) -> dict[str, pl.Expr]:
    """Return what a pod asks for: whole GPUs, or the share of one that `gpu_milli` says."""
    share = number("num_gpu") == 1
    asked = {
        "job_id": text("name"),
        "gpus": pl.when(share).then(divided("gpu_milli", by=1000)).otherwise(number("num_gpu")),
        "cpus": divided("cpu_milli", by=1000),
        "memory_bytes": number("memory_mib", scale=MIB),
    }
    if "gpu_spec" in table.columns:
        asked["gpu_type"] = text("gpu_spec")
    if "qos" in table.columns:
        rank = text("qos").replace_strict(_QOS, default=0, return_dtype=pl.Float64)
        asked["priority"] = rank
    return asked


_STAY_S = 365 * 86400.0
_NO_TIMES = "times are not used: pods come one per second, in order, and stay for a year"


def read_nodes(path: str | Path) -> Machines:
    """Read an openb list of nodes (`sn, cpu_milli, memory_mib, gpu, model`) as machines."""
    place = find(path)
    file = place.path
    if file.is_dir() or "node_list" not in file.name:
        folder = file if file.is_dir() else file.parent
        file = folder / "openb_node_list_gpu_node.csv.gz"
    if not file.is_file():
        hint = "give a file with sn, cpu_milli, memory_mib, gpu, model"
        raise StewardError("holds no list of nodes", where=str(path), hint=hint)
    table = read_table(file)
    lacking = {"cpu_milli", "memory_mib", "gpu", "model"} - set(table.columns)
    if lacking:
        raise StewardError(f"lacks {', '.join(sorted(lacking))}", where=str(file))
    nodes = collected(
        table.scan.select(
            gpus=number("gpu").fill_null(0).fill_nan(0),
            cpus=divided("cpu_milli", by=1000),
            memory_bytes=number("memory_mib", scale=MIB),
            model=text("model").fill_null("cpu"),
        ),
        where=str(file),
    )
    return _machines(nodes)


def _machines(nodes: pl.DataFrame) -> Machines:
    """Return the nodes as given: the trace says nothing about racks, prices or watts."""
    kinds = nodes["model"].unique(maintain_order=True)
    plain = machines_of(len(nodes), gpus_per_node=1)
    return replace(
        plain,
        gpus=nodes["gpus"].cast(pl.Int64).to_numpy(),
        type=nodes["model"].cast(pl.Enum(kinds)).to_physical().cast(pl.Int64).to_numpy(),
        types=tuple(kinds),
        cpus=nodes["cpus"].fill_null(np.nan).to_numpy(),
        memory_bytes=nodes["memory_bytes"].fill_null(np.nan).to_numpy(),
        clusters=("openb",),
    )


def read_pai_100k(source: TraceSource) -> Trace:
    """Read GAIA's sample: it has no GPU count, so its size unit (`cpus`) stands for GPUs."""
    table = read_table(source.path)
    return trace_from(
        table,
        source,
        reader="pai-100k",
        rows=picked(table, source),
        cells={
            "job_id": text("job_id"),
            "submit_s": number("submit_s"),
            "duration_s": number("duration_s"),
            "gpus": number("cpus"),
        },
        mended=(("no GPU column: the size unit `cpus` is taken as GPUs", pl.lit(value=True)),),
    )


def read_pai_jobs(source: TraceSource) -> Trace:
    """Read the PAI simulator's table; like there, `num_gpu` is the whole job's."""
    table = read_table(source.path)
    more = {"gpu_type": text("gpu_type"), "group": text("group"), "num_cpu": number("num_cpu")}
    names = {"gpu_type": "gpu_type", "group": "model", "num_cpu": "cpus"}
    return trace_from(
        table,
        source,
        reader="pai-jobs",
        rows=picked(table, source),
        cells={
            "job_id": text("job_id"),
            "submit_s": number("submit_time"),
            "duration_s": number("duration"),
            "gpus": number("num_gpu"),
            "user": text("user"),
        }
        | {names[column]: cell for column, cell in more.items() if column in table.columns},
    )


def read_pai_tasks(source: TraceSource) -> Trace:
    """Read the task table (with or without its header); the tasks of one job run together.

    A job lasts from the first start to the last end and holds the GPUs of all its tasks. Users
    and true submit times come from `pai_job_table.csv`, where that lies beside it.
    """
    table = _with_columns(source.path, _TASK_COLUMNS)
    instances = number("inst_num").fill_null(1.0).fill_nan(1.0)
    jobs = (
        picked(table, source)
        .group_by(pl.col("job_name").alias("job"), maintain_order=True)
        .agg(
            pl.col(ROW).first(),
            pl.col(EXTRA).first(),
            number("start_time").min().alias("start"),
            number("end_time").max().alias("end"),
            number("end_time").is_null().any().alias("open"),
            _total("plan_gpu", instances, 100.0).alias("gpus"),
            _total("plan_cpu", instances, 100.0).alias("cpus"),
            _total("plan_mem", instances, 1.0 / GIB).alias("memory"),
            text("gpu_type").drop_nulls().first().alias("kind"),
        )
    )
    cells = {
        "job_id": pl.col("job"),
        "submit_s": pl.col("start"),
        "duration_s": pl.col("end") - pl.col("start"),
        "gpus": pl.col("gpus"),
        "cpus": pl.col("cpus"),
        "memory_bytes": pl.col("memory"),
        "gpu_type": pl.col("kind"),
    }
    beside = source.path.with_name("pai_job_table.csv")
    if beside.is_file():
        jobs = jobs.join(_job_table(beside), on="job", how="left", maintain_order="left")
        cells |= {"user": pl.col("user"), "submit_s": pl.min_horizontal("submit", "start")}
    open_ended = pl.col("open") | pl.col("end").is_null()
    return trace_from(
        replace(table, columns=("job",)),  # rows were drawn together: ROW is the first of them
        source,
        reader="pai-tasks",
        rows=jobs,
        cells=cells,
        leave_out=(("a task has not ended: the run time is not known", open_ended),),
    )


def _total(column: str, instances: pl.Expr, per_unit: float) -> pl.Expr:
    return (number(column).fill_null(0.0) * instances / per_unit).sum()


def _job_table(path: Path) -> pl.LazyFrame:
    table = _with_columns(path, ("job_name", "inst_id", "user", "status", "start_time", "end_time"))
    return table.scan.select(
        pl.col("job_name").alias("job"),
        text("user").alias("user"),
        number("start_time").alias("submit"),
    ).unique("job", keep="first")


def _with_columns(path: Path, columns: tuple[str, ...]) -> TraceTable:
    """Read a table of PAI, which are published without the line that names their columns."""
    table = read_table(path)
    if "job_name" not in table.columns and len(table.columns) == len(columns):
        return read_table(path, columns=columns)
    lacking = ", ".join(column for column in columns if column not in table.columns)
    if lacking:
        hint = f"columns: {', '.join(columns)}"
        raise StewardError(f"as a table of PAI it lacks {lacking}", where=str(path), hint=hint)
    return table


def _is_task_table(head: TraceHead) -> bool:
    if head.has("job_name", "task_name", "inst_num", "plan_gpu"):
        return True
    cells = head.columns
    return len(cells) == len(_TASK_COLUMNS) and cells[3] in (
        "Terminated",
        "Running",
        "Failed",
        "Waiting",
    )


OPENB = TraceReader(
    name="openb",
    about="Alibaba openb pods: name, cpu_milli, memory_mib, num_gpu, gpu_milli (and times)",
    recognises=lambda head: head.has(*_POD_COLUMNS),
    read=read_openb,
    needs=_POD_COLUMNS,
)
PAI_100K = TraceReader(
    name="pai-100k",
    about="GAIA's sample of PAI: job_id, submit_s, duration_s, cpus (no GPUs)",
    recognises=lambda head: head.columns == ("job_id", "submit_s", "duration_s", "cpus"),
    read=read_pai_100k,
    needs=("job_id", "submit_s", "duration_s", "cpus"),
)
PAI_JOBS = TraceReader(
    name="pai-jobs",
    about="the PAI simulator's jobs: job_id, user, num_gpu, num_cpu, submit_time, duration, …",
    recognises=lambda head: head.has(*_JOB_COLUMNS),
    read=read_pai_jobs,
    needs=_JOB_COLUMNS,
)
PAI_TASKS = TraceReader(
    name="pai-tasks",
    about="raw PAI pai_task_table.csv: job_name, task_name, inst_num, status, start_time, …",
    recognises=_is_task_table,
    read=read_pai_tasks,
)
