"""One file per family of formats; this table names them, most particular first."""

from __future__ import annotations

from pathlib import Path

from steward.errors import StewardError, did_you_mean
from steward.sim.traces.formats.alibaba import (
    OPENB,
    PAI_100K,
    PAI_JOBS,
    PAI_TASKS,
    read_nodes,
    read_pods,
)
from steward.sim.traces.formats.eagle import EAGLE
from steward.sim.traces.formats.gavel import GAVEL, GAVEL_MSR, SHOCKWAVE
from steward.sim.traces.formats.logs import ACME, HELIOS
from steward.sim.traces.formats.philly import PHILLY, PHILLY_LOG
from steward.sim.traces.formats.plain import PARQUET, PLAIN
from steward.sim.traces.formats.profiled import POLLUX, SIA
from steward.sim.traces.formats.simulators import CHRONUS, MURI, TIRESIAS
from steward.sim.traces.formats.slurm import SACCT, SACCT_COMMAND
from steward.sim.traces.formats.swf import SWF
from steward.sim.traces.source import TraceHead, TraceReader
from steward.sim.traces.table import first_columns, first_lines

__all__ = ["TRACE_READERS", "about", "head_of", "read_nodes", "read_pods"]

TRACE_READERS: dict[str, TraceReader] = {
    reader.name: reader
    for reader in (
        PHILLY, PHILLY_LOG, OPENB, PAI_100K, PAI_TASKS, POLLUX, SIA, SHOCKWAVE, GAVEL, GAVEL_MSR,
        MURI, CHRONUS, TIRESIAS, HELIOS, ACME, PAI_JOBS, EAGLE, SACCT, SWF, PARQUET, PLAIN,
    )
}  # fmt: skip

# Tables of the data folder that hold no jobs: how to know one, what it is, what to read instead.
_NO_JOBS = (
    (("vc", "minute", "running_gpus"), "GPUs in use per virtual cluster over time", "philly"),
    (("date", "total"), "sizes of virtual clusters per day", "philly"),
    (("gpu_job_num", "avg_run_time_gpu"), "summary statistics of clusters", "philly"),
    (("host", "dsw", "psw", "asw"), "a switch topology", "philly"),
    (("simulator", "policy", "avg_jct_s"), "results of other simulators", "philly/103959"),
    (("policy", "job_id", "start_s", "end_s"), "results of other simulators", "philly/103959"),
    (("sample_size", "gpu_time_s"), "samples of GPU time", "tiresias"),
    (("minute", "active", "total"), "active nodes per minute", "philly"),
    (("vc", "nodes_8gpu"), "sizes of virtual clusters", "philly"),
    (("workload", "sc_policy", "tune"), "published results of FGD", "alibaba_openb"),
    (("sn", "cpu_milli", "gpu"), "a list of nodes (read_nodes reads it)", "alibaba_openb"),
    (("worker_type", "steps_per_s"), "measured speeds", "gavel"),
    (("worker_type", "steps_per_s_a"), "measured speeds of pairs", "gavel"),
    (("application", "local_bsz"), "measured step times", "pollux"),
    (("application", "epoch_index"), "measured learning curves", "pollux"),
    (("experiment", "run", "jct_s"), "published completion times", "pollux"),
)


def head_of(path: Path) -> TraceHead:
    """Look at the beginning of a file."""
    begins = first_lines(path)
    columns = () if begins.startswith(b"PAR1") else first_columns(begins)
    return TraceHead(path=path, begins=begins, columns=columns)


def about(head: TraceHead) -> StewardError:
    """Say what a file is that no reader recognises, and what could be read instead."""
    where = str(head.path)
    for columns, what, instead in _NO_JOBS:
        if head.has(*columns):
            return StewardError(f"holds {what}, no jobs", where=where, hint=f"try {instead}")
    if head.has("JobID", "State"):
        problem = "is sacct output that says nothing about when jobs were submitted or how long ran"
        return StewardError(problem, where=where, hint=f"write it with `{SACCT_COMMAND}`")
    wanted = ("job_id", "submit_s", "duration_s", "gpus")
    lacking = [column for column in wanted if column not in head.columns]
    there = ", ".join(column[:40] for column in head.columns[:20])
    problem = f"is no known format; as plain CSV it lacks {', '.join(lacking)}; it has: {there}"
    near = next((n for c in lacking if (n := did_you_mean(c, head.columns))), "")
    known = ", ".join(TRACE_READERS)
    return StewardError(problem, where=where, hint=near or f"formats: {known}; see docs/traces.md")
