"""Telemetry of labelled or unlabelled runs, as signals that kinds of work are told by.

Names are accepted in the form of our recorder (`gpu_util`, `cpu_user_ticks`, …). Cumulative
counters become rates inside a run: their absolute values, the temperature and the load average
tell the order of the runs and not their kind, so they never become a signal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.errors import StewardError

__all__ = ["SIGNALS", "RunSignals", "TelemetryFaults", "signals_of_runs"]

Floats = NDArray[np.float64]

_PERCENT = {
    "util": "gpu_util",
    "copy": "mem_copy_util",
    "sm": "sm_active",
    "occupancy": "sm_occupancy",
    "tensor": "tensor_active",
    "dram": "dram_active",
    "fp32": "fp32_active",
    "fp16": "fp16_active",
}
_LEVEL = {  # name: column, size of one unit
    "power": ("power_w", 700.0),
    "memory": ("fb_used_mib", 1.0),
    "clock": ("sm_clock_mhz", 1980.0),
    "rx": ("gpm_pcie_rx_mib_s", 1.0),
    "tx": ("gpm_pcie_tx_mib_s", 1.0),
    "blocked": ("procs_blocked", 1.0),
}
_COUNTER = {  # name: column, size of one unit; a rate per second of it
    "user": ("cpu_user_ticks", 100.0),
    "system": ("cpu_system_ticks", 100.0),
    "iowait": ("cpu_iowait_ticks", 100.0),
    "switches": ("ctxt_total", 1.0),
    "faults": ("pgfault_total", 1.0),
    "written": ("disk_write_bytes_total", 1e6),
    "read": ("disk_read_bytes_total", 1e6),
}
SIGNALS = (*_PERCENT, *_LEVEL, *_COUNTER)
_ROW = {name: place for place, name in enumerate(SIGNALS)}
_RUN, _TIME = "run", "t"
LEAST_STEP_S = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunSignals:
    """One run: `values[signal, sample]`, NaN where nothing was measured."""

    run: str
    t_s: Floats
    values: Floats
    kind: str = ""  # the label; empty where nothing is known

    def __len__(self) -> int:
        return len(self.t_s)

    @property
    def step_s(self) -> float:
        """Return the usual time between two samples."""
        return float(np.median(np.diff(self.t_s))) if len(self.t_s) > 1 else 1.0

    def signal(self, name: str) -> Floats:
        """Return one signal along the samples."""
        values: Floats = self.values[_ROW[name]]
        return values

    def between(self, begin_s: float, end_s: float) -> RunSignals:
        """Return the samples of an interval."""
        kept = (self.t_s >= begin_s) & (self.t_s <= end_s)
        return RunSignals(
            run=self.run, kind=self.kind, t_s=self.t_s[kept], values=self.values[:, kept]
        )


@dataclass(slots=True, kw_only=True)
class TelemetryFaults:
    """What was left out or could not be read, counted: nothing is dropped in silence."""

    missing_columns: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, what: str, times: int = 1) -> None:
        """Add to a named counter."""
        if times:
            self.counts[what] = self.counts.get(what, 0) + times

    def lines(self) -> list[str]:
        """Return a sentence for each fault."""
        found = [f"{times} {what}" for what, times in sorted(self.counts.items())]
        if self.missing_columns:
            found.append(f"columns that are missing: {', '.join(self.missing_columns)}")
        return found


def signals_of_runs(
    table: pl.DataFrame, *, where: str, kinds: Mapping[str, str] | None = None
) -> tuple[list[RunSignals], TelemetryFaults]:
    """Return the runs of a telemetry table by name, each by time."""
    faults = TelemetryFaults()
    if _TIME not in table.columns:
        raise StewardError(
            "there is no column `t`",
            where=where,
            hint="a row holds `t` (unix seconds), `run` and metrics such as `gpu_util`; "
            f"this table has {', '.join(table.columns[:8])}",
        )
    used = _used_columns()
    faults.missing_columns.extend(sorted(used - set(table.columns)))
    if not used & set(table.columns):
        raise StewardError(
            "there is none of the metrics that kinds of work are told by",
            where=where,
            hint=f"for example {', '.join(sorted(used)[:6])}",
        )
    table = _numbers(table, used, faults)
    if _RUN not in table.columns:
        table = table.with_columns(pl.lit("run").alias(_RUN))
    labels = kinds or {}
    runs = []
    for (name,), rows in table.sort(_RUN, _TIME, maintain_order=True).group_by(
        _RUN, maintain_order=True
    ):
        runs.append(_one_run(str(name), rows, labels.get(str(name), ""), faults))
    return runs, faults


def _used_columns() -> set[str]:
    levels = {column for column, _ in (*_LEVEL.values(), *_COUNTER.values())}
    return set(_PERCENT.values()) | levels


def _numbers(table: pl.DataFrame, used: set[str], faults: TelemetryFaults) -> pl.DataFrame:
    """Return the table with numbers where numbers belong; text in them becomes unknown."""
    wanted = [name for name in table.columns if name in used or name == _TIME]
    cast = table.with_columns(pl.col(wanted).cast(pl.Float64, strict=False))
    lost = sum(
        int((table[name].is_not_null() & cast[name].is_null()).sum())
        for name in wanted
        if table[name].dtype == pl.String
    )
    faults.count("cells that are not numbers", lost)
    bad = cast[_TIME].is_null() | ~cast[_TIME].is_finite().fill_null(value=False)
    faults.count("rows without a time", int(bad.sum()))
    if _RUN in cast.columns:
        unnamed = cast[_RUN].is_null()
        faults.count("rows without a run", int((unnamed & ~bad).sum()))
        bad = bad | unnamed
    return cast.filter(~bad)


def _one_run(name: str, rows: pl.DataFrame, kind: str, faults: TelemetryFaults) -> RunSignals:
    t_s = rows[_TIME].to_numpy().astype(np.float64)
    fresh = np.diff(t_s, prepend=-np.inf) >= LEAST_STEP_S
    faults.count("rows with the time of another", int((~fresh).sum()))
    rows, t_s = rows.filter(pl.Series(fresh)), t_s[fresh]
    values = np.full((len(SIGNALS), len(t_s)), np.nan)
    for signal, column in _PERCENT.items():
        if column in rows.columns:
            values[_ROW[signal]] = rows[column].to_numpy() / 100.0
    for signal, (column, unit) in _LEVEL.items():
        if column in rows.columns:
            values[_ROW[signal]] = rows[column].to_numpy() / unit
    for signal, (column, unit) in _COUNTER.items():
        if column in rows.columns:
            values[_ROW[signal]] = _rate(rows[column].to_numpy(), t_s) / unit
    values[~np.isfinite(values)] = np.nan
    return RunSignals(run=name, kind=kind, t_s=t_s, values=values)


def _rate(counter: Floats, t_s: Floats) -> Floats:
    """Return the rate of a cumulative counter; unknown at the start and where it restarted."""
    if len(t_s) < 2:
        return np.full(len(t_s), np.nan)
    grown = np.diff(counter.astype(np.float64), prepend=np.nan)
    rate: Floats = grown / np.diff(t_s, prepend=np.nan)
    rate[grown < 0] = np.nan
    return rate
