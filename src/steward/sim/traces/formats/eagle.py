"""The jobs of NREL's Eagle as they were published: a Slurm log with its own column names."""

from __future__ import annotations

from steward.model.trace import Trace
from steward.sim.traces import cells
from steward.sim.traces.cells import number, text
from steward.sim.traces.formats.assemble import trace_from
from steward.sim.traces.selection import picked
from steward.sim.traces.source import TraceReader, TraceSource
from steward.sim.traces.table import read_table

__all__ = ["EAGLE"]

_NEEDS = ("job_id", "submit_time", "run_time", "wallclock_req", "nodes_req")


def read_eagle(source: TraceSource) -> Trace:
    """Read Eagle's jobs; most of them ask for nodes and no GPU. The partition is the GPU type."""
    table = read_table(source.path)
    has = set(table.columns)
    words = {"user": "user", "tenant": "account", "model": "name", "gpu_type": "partition"}
    columns = {name: text(column) for name, column in words.items() if column in has}
    if "processors_req" in has:
        columns["cpus"] = number("processors_req")
    if "state" in has:
        columns["cut_off"] = cells.cut_off("state")
    if "start_time" in has:
        wait_s = cells.time_s(table, "start_time") - cells.time_s(table, "submit_time")
        columns["wait_s"] = wait_s.clip(lower_bound=0.0)
    return trace_from(
        table,
        source,
        reader="eagle",
        rows=picked(table, source),
        cells={
            "job_id": text("job_id"),
            "submit_s": cells.time_s(table, "submit_time"),
            "duration_s": number("run_time"),
            "gpus": number("gpus_req").fill_null(0.0) if "gpus_req" in has else number("nodes_req"),
            "time_limit_s": number("wallclock_req"),
        }
        | columns,
        cpu_jobs=True,
    )


EAGLE = TraceReader(
    name="eagle",
    about="NREL Eagle: job_id, user, account, wallclock_req, nodes_req, submit_time, run_time, …",
    recognises=lambda head: head.has(*_NEEDS),
    read=read_eagle,
    needs=_NEEDS,
)
