"""Small wide tables in Reveal's layout, whose contents a test decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

GPU, IPC, POWER = "GPU: utilization.gpu.0", "Perf:IPC", "GPU: power.draw.0"
BUSY, RX = "Turbostat:Busy%.-", "NetworkInterStat_diff:rx_bytes.ens1f0"


def reveal_columns(host: str = "htc-g003") -> list[str]:
    """Return names as Reveal has them, without that of the time."""
    units = {GPU: "%", IPC: "-", POWER: "W", BUSY: "%", RX: "B"}
    return [f"{name}.{host}[{unit}]" for name, unit in units.items()]


def reveal_table(
    rows: int = 600, *, seed: int = 0, host: str = "htc-g003", period_s: float = 0.1
) -> pl.DataFrame:
    """Return a table at 100 ms: idle for the first half, busy for the second."""
    rng = np.random.default_rng(seed)
    busy = np.arange(rows) >= rows // 2
    values = [
        np.where(busy, 100.0, 0.0),
        1.5 + busy + rng.normal(0, 0.05, rows),
        np.where(busy, 600.0, 80.0) + rng.normal(0, 5, rows),
        np.where(busy, 40.0, 3.0) + rng.normal(0, 0.5, rows),
        np.where(busy, 1e6, 0.0),
    ]
    time = 1_700_000_000.0 + np.arange(rows) * period_s
    names = reveal_columns(host)
    return pl.DataFrame({"time": time, **dict(zip(names, values, strict=True))})


def write_reveal(path: Path, table: pl.DataFrame) -> Path:
    """Write a table as Reveal's files are: tabs, the time without a name."""
    names = ["", *table.columns[1:]]
    lines = ["\t".join(names)]
    lines += ["\t".join("" if v is None else str(v) for v in row) for row in table.iter_rows()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_csv(path: Path, names: Sequence[str], columns: Mapping[int, Sequence[object]]) -> Path:
    """Write columns as they are, also names that are there twice."""
    rows = zip(*(columns[i] for i in range(len(names))), strict=True)
    lines = [",".join(names), *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
