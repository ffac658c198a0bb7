"""Telemetry of runs whose kind is planted: what their kernels and hosts would show."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl

# per kind: share busy, active SMs while busy, tensor and occupancy per SM, switches/s, cores, rx
KINDS: dict[str, tuple[float, ...]] = {
    "language-train": (1.0, 0.85, 0.25, 0.48, 240.0, 1.0, 40.0),
    "language-prefill": (1.0, 0.9, 0.5, 0.35, 200.0, 1.0, 25.0),
    "idle-allocated": (0.0, 0.0, 0.0, 0.0, 200.0, 0.0, 0.7),
    "straggler": (0.5, 0.85, 0.25, 0.5, 240.0, 0.2, 20.0),
}
STRANGE = (1.0, 0.97, 0.001, 0.95, 200.0, 0.1, 5000.0)  # copies for ever: like none of these


def telemetry(
    runs: dict[str, str], *, seconds: float = 16.0, step_s: float = 0.1, seed: int = 0
) -> pl.DataFrame:
    """Return telemetry of `runs`, each with the kind that it is of."""
    random = np.random.default_rng(seed)
    return pl.concat(
        [_one(run, kind, seconds, step_s, random) for run, kind in sorted(runs.items())]
    )


def _one(
    run: str, kind: str, seconds: float, step_s: float, random: np.random.Generator
) -> pl.DataFrame:
    share, sm, tensor, occupancy, switches, cores, rx = KINDS.get(kind, STRANGE)
    size = round(seconds / step_s)
    t_s = 1e9 + 1000.0 * random.random() + step_s * np.arange(size)
    scale = random.uniform(0.85, 1.0)
    period = max(1, round(1.0 / step_s))
    busy = ((np.arange(size) // period) % 2 == 0) if share == 0.5 else np.full(size, share > 0)
    noise = 1.0 + 0.02 * random.standard_normal(size)
    active = np.clip(100 * sm * scale * busy * noise, 0, 100)
    host = cores * np.where(busy | (share != 0.5), 1.0, 0.05)
    steps = step_s * np.ones(size)
    return pl.DataFrame(
        {
            "run": [run] * size,
            "t": t_s,
            "gpu_util": np.where(busy, 99.0, 0.0),
            "mem_copy_util": active / 3,
            "fb_used_mib": np.full(size, 18_000.0 * scale),
            "power_w": 120 + 4.0 * active,
            "temp_c": np.full(size, random.uniform(30, 70)),
            "sm_clock_mhz": np.full(size, 1980.0),
            "sm_active": active,
            "sm_occupancy": active * occupancy,
            "tensor_active": active * tensor,
            "dram_active": active * 0.35,
            "fp32_active": active * 0.03,
            "fp16_active": np.zeros(size),
            "gpm_pcie_rx_mib_s": rx * noise,
            "gpm_pcie_tx_mib_s": np.full(size, 5.0),
            "cpu_user_ticks": 1e4 + np.cumsum(100 * host * steps),
            "cpu_system_ticks": 1e3 + np.cumsum(5 * steps),
            "cpu_iowait_ticks": np.zeros(size),
            "ctxt_total": 1e6 + np.cumsum(switches * steps),
            "procs_blocked": np.zeros(size),
            "pgfault_total": 1e6 + np.cumsum(10 * steps),
            "disk_read_bytes_total": np.zeros(size),
            "disk_write_bytes_total": np.zeros(size),
        }
    )


def events(runs: dict[str, str]) -> str:
    """Return events that name the kind of each run and mark none of its work."""
    lines = (
        json.dumps({"t": 0.0, "run": run, "kind": kind, "phase": "start"})
        for run, kind in runs.items()
    )
    return "\n".join(lines) + "\n"


def files(folder: Path, name: str, runs: dict[str, str], table: pl.DataFrame | None = None) -> str:
    """Write both files and return them as `TELEMETRY,EVENTS`."""
    folder.mkdir(exist_ok=True)
    telemetry_file, events_file = folder / f"{name}.csv", folder / f"{name}.jsonl"
    (telemetry(runs) if table is None else table).write_csv(telemetry_file)
    events_file.write_text(events(runs), encoding="utf-8")
    return f"{telemetry_file},{events_file}"


def three_of_each(prefix: str, kinds: tuple[str, ...] = tuple(KINDS)) -> dict[str, str]:
    """Return three runs of each kind."""
    return {f"{prefix}-{kind}-{i}": kind for kind in kinds for i in range(3)}
