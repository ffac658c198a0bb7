"""Synthetic telemetry in Reveal's layout: 750 columns of one host at 100 ms, per file one run.

Columns are called as in the published set. Values follow eight kinds of work that change each
minute; some columns are zero at most times, some at their greatest value, some constant, and
power has decimals as sensors give them. The values themselves are made up.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = ["COLUMNS", "columns", "run_table", "write_run"]

COLUMNS = 750
_CORES, _PERIOD_S, _KINDS, _MINUTE = 46, 0.1, 8, 600
_T0 = 1_760_000_000.0
_GPU = (
    "utilization.gpu", "utilization.memory", "utilization.jpeg", "utilization.ofa", "power.draw",
    "temperature.gpu", "temperature.memory", "fan.speed", "memory.used", "memory.free",
    "clocks.current.sm", "clocks.current.memory",
)  # fmt: skip
_PERF = (
    "Branches", "Branch_Misses", "Cache_Misses", "Cache_References", "Cycles", "Instructions",
    "Cycle_activity_cycles_l3_miss", "Cycle_activity_stalls_l3_miss", "Mem-loads", "Mem-stores",
    "IPC", "BranchUtilization", "CacheUtilization", "StallRatio", "OccupancyRatio",
)  # fmt: skip
_CORE = (
    "Avg_MHz", "Busy%", "Bzy_MHz", "TSC_MHz", "IPC", "IRQ", "SMI", "POLL%", "C1%", "C2%", "CPU%c1",
    "CPU%c6", "CoreTmp", "CorWatt",
)  # fmt: skip
_MEMORY = ("MemTotal", "CommitLimit", "SwapTotal", "MemAvailable", "MemoryUtilization")
_NET = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_errs", "tx_errs", "rx_drop")
_STILL = (
    "jpeg",
    "ofa",
    "fan",
    "MemTotal",
    "CommitLimit",
    "SwapTotal",
    "TSC_MHz",
    "SMI",
    "errs",
    "drop",
)


def columns(host: str) -> list[str]:
    """Return the names of all columns but the time, for one host."""
    names = [f"GPU: {metric}.{gpu}.{host}[-]" for gpu in range(2) for metric in _GPU]
    names += [f"Perf:{metric}.{host}[count]" for metric in _PERF]
    names += [f"Turbostat:{m}.{core}.{host}[-]" for core in ("-", *range(_CORES)) for m in _CORE]
    names += [f"Memory:{metric}.{host}[kB]" for metric in _MEMORY]
    cards = ("ens1f0", "ib0")
    names += [f"NetworkInterStat_diff:{m}.{card}.{host}[B]" for card in cards for m in _NET]
    return [*names, *(f"Storage_diff:field{i}.sda.{host}[-]" for i in range(COLUMNS))][
        : COLUMNS - 1
    ]


def run_table(rows: int, *, seed: int, host: str) -> pl.DataFrame:
    """Return one run."""
    rng = np.random.default_rng(seed)
    names = columns(host)
    kind = rng.integers(0, _KINDS, rows // _MINUTE + 1).repeat(_MINUTE)[:rows]
    level = (20.0 + 60.0 * rng.random((_KINDS, len(names)))).astype(np.float32)
    table = {"time": _T0 + np.arange(rows) * _PERIOD_S}
    for place, name in enumerate(names):
        table[name] = _values(name, kind, level[:, place], rng)
    return pl.DataFrame(table)


def _values(
    name: str, kind: NDArray[np.int64], level: NDArray[np.float32], rng: np.random.Generator
) -> NDArray[np.float32]:
    if any(word in name for word in _STILL):
        return np.zeros(len(kind), np.float32)
    noise = rng.standard_normal(len(kind), dtype=np.float32)
    values: NDArray[np.float32] = np.round(level[kind] + 3 * noise, 3).astype(np.float32)
    if "utilization.gpu" in name:
        values[:] = np.round(values)
        values[kind < 6], values[kind < 3] = 100, 0
    elif "IPC" in name:
        values /= np.float32(50)
    elif "bytes" in name or "packets" in name:
        values[kind < 4] = 0
    return values


def write_run(path: Path, table: pl.DataFrame, *, turn: int, host: str) -> None:
    """Write a run as Parquet, each with its rows turned by another number, with its own host."""
    turned = pl.concat([table[turn:], table[:turn]]).with_columns(table["time"])
    turned.columns = ["time", *columns(host)]
    turned.write_parquet(path, compression="snappy", row_group_size=25_000)
