"""Pollux and Sia: jobs say what they train; how long that takes follows from measured profiles.

`duration_s` is the time alone on the GPUs asked for, at the batch size asked for: on T4 nodes of
four GPUs in both (Sia calls them `aws`), the only type that both artifacts measured.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from steward.model.goodput import alone_s
from steward.model.trace import Trace
from steward.sim.traces.cells import number, text
from steward.sim.traces.formats.assemble import trace_from
from steward.sim.traces.profiles import read_profiles
from steward.sim.traces.selection import picked
from steward.sim.traces.source import TraceHead, TraceReader, TraceSource
from steward.sim.traces.table import collected, read_table

__all__ = ["POLLUX", "SIA"]

_KEYS = ("application", "num_replicas", "batch_size")
_COLUMNS = ("set", "workload", "name", "submit_s", *_KEYS)
_GPUS_PER_NODE = 4


def read_pollux(source: TraceSource) -> Trace:
    """Read one workload of Pollux' artifact."""
    return _read(source, reader="pollux", learning_from=source.path.parent)


def read_sia(source: TraceSource) -> Trace:
    """Read one workload of Sia's artifact; how models learn is in Pollux' folder beside it."""
    return _read(source, reader="sia", learning_from=source.path.parent.parent / "pollux")


def _read(source: TraceSource, *, reader: str, learning_from: Path) -> Trace:
    table = read_table(source.path)
    rows = picked(table, source)
    durations = _durations(
        collected(rows.select(_KEYS).unique(maintain_order=True), where=str(source.path)),
        folder=source.path.parent,
        learning_from=learning_from,
    )
    return trace_from(
        table,
        source,
        reader=reader,
        rows=rows.join(durations.lazy(), on=_KEYS, how="left", maintain_order="left"),
        cells={
            "job_id": text("name"),
            "submit_s": number("submit_s"),
            "duration_s": pl.col("alone_s"),
            "gpus": number("num_replicas"),
            "model": text("application"),
            "batch": number("batch_size"),
        },
        leave_out=(("its application was never measured at that size", _unmeasured()),),
    )


def _unmeasured() -> pl.Expr:
    return pl.col("application").is_not_null() & pl.col("alone_s").is_null()


def _durations(asked: pl.DataFrame, *, folder: Path, learning_from: Path) -> pl.DataFrame:
    """Return how long each kind of job takes alone; null where nothing was measured."""
    profiles = read_profiles(folder, learning_from=learning_from)
    sizes = asked.select(number("num_replicas"), number("batch_size")).rows()
    spans: list[float | None] = []
    for application, (replicas, batch) in zip(asked["application"], sizes, strict=True):
        profile = profiles.get(application or "")
        known = profile is not None and (replicas or 0) >= 1 and (batch or 0) >= 1
        span = (
            alone_s(profile, replicas=int(replicas), batch=batch, gpus_per_node=_GPUS_PER_NODE)
            if profile is not None and known
            else None
        )
        spans.append(span)
    return asked.with_columns(pl.Series("alone_s", spans, dtype=pl.Float64))


def _is_workload(head: TraceHead) -> bool:
    return head.has(*_COLUMNS)


def _is_sia(head: TraceHead) -> bool:
    """Sia's sets are named for the clusters they were drawn from, Pollux' for their load."""
    first = b"".join(head.begins.split(b"\n")[1:2])
    return _is_workload(head) and first.startswith((b"philly,", b"saturn,", b"newtrace,"))


POLLUX = TraceReader(
    name="pollux",
    about="Pollux workloads: set, workload, name, submit_s, application, num_replicas, batch_size",
    recognises=lambda head: _is_workload(head) and not _is_sia(head),
    read=read_pollux,
    needs=_COLUMNS,
    picks={"set": "1.0", "workload": "6"},
)
SIA = TraceReader(
    name="sia",
    about="Sia workloads: the columns of Pollux; sets philly, saturn, newtrace",
    recognises=_is_sia,
    read=read_sia,
    needs=_COLUMNS,
    picks={"set": "philly", "workload": "1"},
)
