"""The newest hours of a recorded folder as a page: what the dashboard shows of patterns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.learn.patterns.from_telemetry import BasketRequest, make_baskets
from steward.learn.workloads.phases import PhaseFilter, PhaseSignals
from steward.mining.page import page
from steward.mining.summary import Summary, Timeline, spans_of, summarise
from steward.model.forecast import PHASES
from steward.model.frame import ENTITY, T_S
from steward.store.telemetry import Telemetry

__all__ = ["gpu_phases", "recorded_page"]

HOUR_S = 3600.0
_STEPS = 720  # of a timeline: finer would not be seen
_MOST_GPUS = 60
# What the GPU alone cannot tell apart is one: a host that works, reads or writes is not looked at.
_TOLD = ("start", "train", "evaluate", "quiet")
_SHOWN = np.array([_TOLD.index(each if each in _TOLD else "quiet") for each in PHASES])
_GPU_METRICS = ("gpu.busy_share", "gpu.memory.used_bytes", "gpu.power_watts")

Floats = NDArray[np.float64]


def recorded_page(folder: Path, *, window_s: float, hours: int) -> str:
    """Return the patterns of the newest hours that have telemetry, as one HTML page."""
    request = BasketRequest(paths=(str(folder),), window_s=window_s, newest_hours=hours)
    baskets = make_baskets(request).baskets
    if not len(baskets) or not baskets.groups:
        raise StewardError(
            "there is no window with a known metric yet",
            where="telemetry",
            hint="windows are whole: take shorter ones, or come back when more was recorded",
        )
    found = summarise(baskets)
    end_s = float(baskets.start_s.max()) + window_s
    phases = gpu_phases(folder, from_s=end_s - hours * HOUR_S, to_s=end_s)
    return page(_with(found, phases), title=f"Patterns of the last {hours} h")


def _with(found: Summary, phases: Timeline | None) -> Summary:
    return found if phases is None else replace(found, timeline=phases)


def gpu_phases(folder: Path, *, from_s: float, to_s: float) -> Timeline | None:
    """Return the phases of each GPU over time, by what is measured of the GPU alone; None if not.

    What hosts do is left out, since they may work for other jobs: whether a quiet GPU is idle, or
    waits for data, a compiler or a checkpoint, is not told.
    """
    step_s = max(1.0, np.ceil((to_s - from_s) / _STEPS))
    telemetry = Telemetry(folder / "telemetry", keep_days=None)
    rows = telemetry.read(from_s=from_s, to_s=to_s, metrics=_GPU_METRICS)
    missing = [pl.lit(None, pl.Float64).alias(m) for m in _GPU_METRICS if m not in rows.columns]
    known = rows.with_columns(missing).filter(pl.col(_GPU_METRICS[0]).is_not_null())
    if known.is_empty():
        return None
    steps = known.group_by(ENTITY, ((pl.col(T_S) - from_s) // step_s).alias("step")).agg(
        pl.col(_GPU_METRICS).mean()
    )
    gpus = steps[ENTITY].unique().sort().to_list()[:_MOST_GPUS]
    begun, size = PhaseFilter(len(gpus)), int((to_s - from_s) // step_s) + 1
    values = {metric: _table(steps, metric, gpus, size) for metric in _GPU_METRICS}
    unknown = np.full(len(gpus), np.nan)
    places = np.empty((size, len(gpus)), np.int64)
    for step in range(size):
        seen = PhaseSignals(
            busy_share=values["gpu.busy_share"][step],
            cores=unknown,
            read_bytes_per_s=unknown,
            write_bytes_per_s=unknown,
            held_bytes=values["gpu.memory.used_bytes"][step],
            power_watts=values["gpu.power_watts"][step],
        )
        belief = begun.update(seen, step_s)
        places[step] = (belief @ (_SHOWN[:, None] == np.arange(len(_TOLD)))).argmax(axis=1)
    measured = ~np.isnan(values["gpu.busy_share"])
    begins = np.arange(size) * step_s
    return Timeline(
        runs=tuple(map(str, gpus)),
        spans=tuple(
            tuple(spans_of(begins[there], places[there, gpu], step_s))
            for gpu, there in enumerate(measured.T)
        ),
        kinds=_TOLD,
        basis=f"phases of GPUs in steps of {step_s:g} s, by what is measured of the GPU alone; "
        "quiet is idle, or its host loads, compiles or saves",
    )


def _table(steps: pl.DataFrame, metric: str, gpus: list[str], size: int) -> Floats:
    """Return steps x GPUs; NaN where nothing was measured."""
    found = np.full((size, len(gpus)), np.nan)
    place = {gpu: row for row, gpu in enumerate(gpus)}
    part = steps.filter(pl.col(ENTITY).is_in(gpus) & pl.col("step").is_between(0, size - 1))
    columns = np.array([place[each] for each in part[ENTITY].to_list()], np.int64)
    values = part[metric].cast(pl.Float64).fill_null(np.nan).to_numpy()
    found[part["step"].cast(pl.Int64).to_numpy(), columns] = values
    return found
