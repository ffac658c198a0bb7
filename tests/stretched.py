"""Runs of half a minute made long: the steady part of each, again and again, on a node of its own.

What a rule asks for takes minutes; runs were recorded for seconds. A job that goes on as it was is
the same seconds repeated. Each run becomes a node, so that one look at one file judges them all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from steward.model.metrics.files import FILE_NAMES

__all__ = ["stretched"]

T0_S = 1_800_000_000.0
TICK_S = 0.1
RATES = {  # counters: our rate, and their unit in ours
    "cpu_user_ticks": ("host.cpu.user_cores", 0.01),
    "cpu_system_ticks": ("host.cpu.system_cores", 0.01),
    "disk_read_bytes_total": ("host.disk.read_bytes_per_s", 1.0),
    "disk_write_bytes_total": ("host.disk.write_bytes_per_s", 1.0),
    "net_rx_bytes_total": ("host.network.receive_bytes_per_s", 1.0),
}
GAUGES = {
    theirs: (ours, scale)
    for theirs, ours, scale in FILE_NAMES["h200"]
    if ours.startswith("gpu.") and not theirs.endswith("_mj")
}
STATES = ("gpu.memory.used_bytes", "gpu.processes_count", "gpu.throttle_bits")
BROKEN = ("t5_train",)  # failed before it began

Mark = dict[str, Any]


def stretched(folder: Path, *, seconds: float, every_s: float) -> pl.DataFrame:
    """Return a table that `steward rules run --telemetry` reads."""
    table = pl.read_csv(folder / "telemetry.csv.gz", infer_schema_length=None, null_values=["nan"])
    marks = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    parts: list[pl.DataFrame] = []
    for (run,), rows in table.partition_by("run", as_dict=True, maintain_order=True).items():
        own = [mark for mark in marks if mark["run"] == run]
        name = own[0]["workload"]
        if name not in BROKEN:
            from_s, to_s = _steady(own, name, rows)
            some = rows.filter(pl.col("t").is_between(from_s, to_s)).sort("t")
            parts += _node(_thin(_again(some, own, seconds), every_s), name)
    return pl.concat(parts, how="diagonal_relaxed").sort("t_s", "entity")


def _steady(marks: list[Mark], name: str, rows: pl.DataFrame) -> tuple[float, float]:
    """Choose the part of a run that goes on: its second half, or what its name promises."""
    at: dict[str, list[float]] = {}
    for mark in marks:
        at.setdefault(mark["phase"], []).append(mark["t"])
    end_s = min(at.get("summary") or at.get("end") or at["exit"])
    if name == "idle_allocated":
        return at["idle_allocated"][0] + 1.5, at["end"][0] - 0.3
    if name == "checkpoint_stalls":  # training until the second checkpoint, and that
        return at["train"][1], at["train"][2]
    if name == "compile_then_train":
        return at["compile"][0] + 1.0, at["compile"][0] + 12.0
    held = rows.filter((pl.col("compute_procs") > 0) & (pl.col("t") < end_s))["t"].to_list()
    begin_s = max(held[0], at.get("train", [0.0])[0])
    return (begin_s + end_s) / 2, end_s - 0.3


def _again(rows: pl.DataFrame, marks: list[Mark], seconds: float) -> pl.DataFrame:
    t_s = rows["t"].to_numpy()
    period_s = t_s[-1] - t_s[0] + TICK_S
    times = int(np.ceil(seconds / period_s))
    starts_s = T0_S + period_s * np.arange(times)
    columns = {"t_s": (starts_s[:, None] + (t_s - t_s[0])[None, :]).ravel()}
    for name in rows.columns:
        values = rows[name]
        if name in RATES:
            ours, unit = RATES[name]
            rate = np.diff(values.to_numpy()) / np.diff(t_s) * unit
            columns[ours] = np.tile(np.append(rate, rate.mean()), times)
        elif name in GAUGES:
            ours, unit = GAUGES[name]
            columns[ours] = np.tile(values.cast(pl.Float64).to_numpy() * unit, times)
    phases = np.full(len(t_s), "", dtype=object)
    for mark in sorted(marks, key=lambda mark: float(mark["t"])):
        phases[t_s >= mark["t"]] = mark["phase"]
    whole = pl.DataFrame(columns).fill_nan(None)
    whole = whole.with_columns(pl.Series("phase", np.tile(phases, times), dtype=pl.String))
    return whole.filter(pl.col("t_s") < T0_S + seconds)


def _thin(rows: pl.DataFrame, every_s: float) -> pl.DataFrame:
    """Sample less often: hardware counters are means since the last sample, states are states."""
    last = ("t_s", "phase", *STATES)
    step = ((pl.col("t_s") - T0_S) / every_s).floor().alias("step")
    return (
        rows.group_by(step, maintain_order=True)
        .agg(pl.col(n).last() if n in last else pl.col(n).mean() for n in rows.columns)
        .drop("step")
    )


def _node(rows: pl.DataFrame, name: str) -> Iterator[pl.DataFrame]:
    for prefix, entity in (("host.", name), ("gpu.", f"{name}/gpu0")):
        own = [column for column in rows.columns if column.startswith(prefix)]
        yield rows.select("t_s", pl.lit(entity).alias("entity"), *own, "phase")
