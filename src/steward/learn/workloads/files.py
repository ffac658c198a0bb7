"""Read labelled runs from two files: telemetry (CSV or Parquet) and events (JSON lines)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from steward.errors import StewardError
from steward.learn.workloads.signals import RunSignals, TelemetryFaults, signals_of_runs

__all__ = ["Marks", "read_runs"]

BEGIN, END = "work", "end"
LOADED = 1.5  # times the least memory seen: from here, a job holds some
HINT = "files in the form of kinds_telemetry.csv.gz and kinds_events.jsonl: see docs/learn/kinds.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What events say of one run: its kind, and where its work begins and ends."""

    kind: str = ""
    begin_s: float = float("-inf")
    end_s: float = float("inf")


def read_runs(telemetry: Path, events: Path | None) -> tuple[list[RunSignals], TelemetryFaults]:
    """Return the runs, each cut to where its work is, and what was left out."""
    for path in (telemetry, *([events] if events is not None else [])):
        if not path.is_file():
            raise StewardError("there is no such file", where=str(path), hint=HINT)
    table = _table(telemetry)
    marks: dict[str, Marks] = {}
    bad = 0
    if events is not None:
        with events.open(encoding="utf-8", errors="replace") as lines:
            marks, bad = _marks(lines)
    kinds = {run: each.kind for run, each in marks.items()}
    found, faults = signals_of_runs(table, where=str(telemetry), kinds=kinds)
    faults.count("lines of events that are not JSON objects with a run", bad)
    doubled = [name for name in table.columns if "_duplicated_" in name]
    faults.count("doubled columns, of which the first is used", len(doubled))
    runs = []
    for run in found:
        mark = marks.get(run.run, Marks())
        marked = isfinite(mark.begin_s) or isfinite(mark.end_s)
        cut = run.between(mark.begin_s, mark.end_s) if marked else _while_it_holds_memory(run)
        if len(cut) > 1:
            runs.append(cut)
        else:
            faults.count("runs with less than two samples while they work")
    if events is not None:
        faults.count("runs without a kind in the events", sum(not run.kind for run in runs))
        names = {run.run for run in found}
        faults.count("runs of the events without telemetry", len(set(marks) - names))
    if not runs:
        raise StewardError(
            "there is no run with at least two samples", where=str(telemetry), hint=HINT
        )
    return runs, faults


def _while_it_holds_memory(run: RunSignals) -> RunSignals:
    """Return a run without the stretches at both ends in which nothing is on its GPU yet."""
    memory = run.signal("memory")
    known = memory[~np.isnan(memory)]
    if not len(known):
        return run
    low, usual = float(known.min()), float(np.median(known))
    if usual < LOADED * low:
        return run
    held = np.flatnonzero(memory > (low + usual) / 2)
    return run.between(run.t_s[held[0]], run.t_s[held[-1]])


def _table(path: Path) -> pl.DataFrame:
    """Return a table with every cell as text from CSV: what is not a number is counted later."""
    try:
        if path.suffix == ".parquet":
            return pl.read_parquet(path)
        return pl.read_csv(path, infer_schema=False, truncate_ragged_lines=True)
    except pl.exceptions.PolarsError as fault:
        raise StewardError(
            f"it cannot be read as a table: {str(fault).splitlines()[0]}",
            where=str(path),
            hint=HINT,
        ) from fault


def _marks(lines: Iterable[str]) -> tuple[dict[str, Marks], int]:
    found: dict[str, dict[str, Any]] = {}
    bad = 0
    for line in lines:
        if not line.strip():
            continue
        event = _event(line)
        if event is None:
            bad += 1
            continue
        run = found.setdefault(str(event["run"]), {})
        kind = event.get("kind")
        if isinstance(kind, str) and kind:
            run["kind"] = kind
        t_s, phase = event.get("t"), event.get("phase")
        if isinstance(t_s, int | float):
            if phase == BEGIN:
                run["begin_s"] = float(t_s)
            elif phase == END:
                run["end_s"] = float(t_s)
    return {run: Marks(**each) for run, each in found.items()}, bad


def _event(line: str) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except json.JSONDecodeError:
        return None
    return event if isinstance(event, dict) and "run" in event else None
