"""Traces that came with simulators and need no more than their columns: Muri, Chronus, Tiresias."""

from __future__ import annotations

import polars as pl

from steward.model.trace import Trace
from steward.sim.traces.cells import number, text
from steward.sim.traces.formats.assemble import trace_from
from steward.sim.traces.selection import picked
from steward.sim.traces.source import TraceReader, TraceSource
from steward.sim.traces.table import read_table

__all__ = ["CHRONUS", "MURI", "TIRESIAS"]

_MINUTE_S = 60.0
_TIRESIAS = ("job_id", "num_gpus", "submit_s", "iterations", "model_name", "duration_s")
_MURI = (*_TIRESIAS, "batch_size", "priority")
_CHRONUS = (
    "job_id",
    "user",
    "num_gpus",
    "submit_min",
    "duration_min",
    "model_name",
    "deadline_min_list",
    "job_type",
)


def read_muri(source: TraceSource) -> Trace:
    """Read one of Muri's traces (`trace1`, `trace2`)."""
    cells = {"batch": number("batch_size"), "priority": number("priority")}
    return _read(source, "muri", submit="submit_s", duration="duration_s", more=cells)


def read_tiresias(source: TraceSource) -> Trace:
    """Read the 60 jobs of Tiresias' simulator."""
    return _read(source, "tiresias", submit="submit_s", duration="duration_s", more={})


def read_chronus(source: TraceSource) -> Trace:
    """Read Chronus' jobs, whose times are minutes.

    A soft job's first deadline counts (later ones only lower its value); a best-effort job has
    none.
    """
    first = pl.col("deadline_min_list").str.split("-").list.first().cast(pl.Float64, strict=False)
    bound = text("job_type").is_in(["strict", "soft"])
    more = {
        "tenant": text("user"),  # its `user` is a virtual cluster, drawn at random by the authors
        "deadline_s": pl.when(bound).then(first * _MINUTE_S),
        "priority": text("job_type").replace_strict(
            {"strict": 2.0, "soft": 1.0}, default=0.0, return_dtype=pl.Float64
        ),
    }
    return _read(source, "chronus", submit="submit_min", duration="duration_min", more=more)


def _read(
    source: TraceSource, reader: str, *, submit: str, duration: str, more: dict[str, pl.Expr]
) -> Trace:
    table = read_table(source.path)
    scale = _MINUTE_S if submit.endswith("_min") else 1.0
    return trace_from(
        table,
        source,
        reader=reader,
        rows=picked(table, source),
        cells={
            "job_id": text("job_id"),
            "submit_s": number(submit, scale=scale),
            "duration_s": number(duration, scale=scale),
            "gpus": number("num_gpus"),
            "model": text("model_name"),
        }
        | more,
    )


MURI = TraceReader(
    name="muri",
    about="Muri: trace, job_id, num_gpus, submit_s, iterations, …, stage0_ms, …, priority",
    recognises=lambda head: head.has("trace", "stage0_ms", *_MURI),
    read=read_muri,
    needs=_MURI,
    picks={"trace": "trace1"},
)
CHRONUS = TraceReader(
    name="chronus",
    about="Chronus: job_id, user, num_gpus, submit_min, duration_min, deadline_min_list, …",
    recognises=lambda head: head.has(*_CHRONUS),
    read=read_chronus,
    needs=_CHRONUS,
)
TIRESIAS = TraceReader(
    name="tiresias",
    about="Tiresias: job_id, num_gpus, submit_s, iterations, model_name, duration_s",
    recognises=lambda head: head.columns == _TIRESIAS,
    read=read_tiresias,
    needs=_TIRESIAS,
)
