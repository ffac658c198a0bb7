"""What phases of real jobs look like, 100 ms by 100 ms, as measured on an H200.

All shapes lie in one matrix, one after another, so that looking at thousands of GPUs at once is
one fancy index. A shape that ends begins anew. Running sums beside the matrix give the exact
integral over any stretch of time: telemetry and truth are both taken from them and can't disagree.
`scripts/make_shapes.py` cuts the shapes out of the recording.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.errors import unknown_name

__all__ = ["GPU_LEVELS", "GPU_USE", "HOST_USE", "STEP_S", "Shapes", "measured_shapes"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STEP_S = 0.1
GPU_USE = slice(0, 2)  # busy share and active share: what is integrated of a GPU
GPU_LEVELS = slice(2, 5)  # memory, power, temperature: what is looked at
HOST_USE = slice(5, 8)  # cores, bytes read, bytes written
_BUSY, _MEMORY = 0, 2
_METRICS = (
    "gpu.busy_share",
    "gpu.sm.active_share",
    "gpu.memory.used_bytes",
    "gpu.power_watts",
    "gpu.temperature_celsius",
    "job.cpu.busy_cores",
    "job.disk.read_bytes_per_s",
    "job.disk.write_bytes_per_s",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shapes:
    """A matrix of values and their running sums; rows `start..start+length` are one shape.

    The memory column is not in bytes: it's the part of its peak that the shape holds at a time,
    because a simulated job has its own size.
    """

    names: tuple[str, ...]
    start: Ints
    length: Ints
    values: Floats  # rows of all shapes, one column per metric
    sums: Floats  # integral from the shape's beginning to the beginning of the row
    totals: Floats  # one row per shape: integral over all of it
    demand: Floats  # mean busy share of each shape
    base_memory_bytes: float  # of a GPU on which nothing runs

    def code(self, name: str) -> int:
        """Return the position of a shape, by which all else refers to it."""
        if name not in self.names:
            raise unknown_name("shape", name, self.names)
        return self.names.index(name)

    def codes(self, prefix: str) -> tuple[int, ...]:
        """Return all shapes of a family, e.g. `train.`."""
        return tuple(i for i, name in enumerate(self.names) if name.startswith(prefix))

    def value(self, shape: Ints, tau_s: Floats, columns: slice) -> Floats:
        """Return the values at `tau_s` seconds into each shape: one row each."""
        cell = (tau_s / STEP_S).astype(np.int64) % self.length[shape]
        return np.asarray(self.values[self.start[shape] + cell, columns])

    def integral(self, shape: Ints, tau_s: Floats, columns: slice) -> Floats:
        """Return the integrals from 0 to `tau_s` seconds into each shape: one row each."""
        cells = tau_s / STEP_S
        whole = cells.astype(np.int64)
        rounds, cell = np.divmod(whole, self.length[shape])
        at = self.start[shape] + cell
        rest_s = ((cells - whole) * STEP_S)[:, None]
        full = rounds[:, None] * self.totals[shape, columns]
        return np.asarray(full + self.sums[at, columns] + rest_s * self.values[at, columns])


def _shapes(table: pl.DataFrame) -> Shapes:
    names = tuple(table["shape"].unique(maintain_order=True).to_list())
    code = {name: i for i, name in enumerate(names)}
    owner = np.array([code[name] for name in table["shape"].to_list()], dtype=np.int64)
    length = np.bincount(owner, minlength=len(names)).astype(np.int64)
    start = np.cumsum(length) - length
    values = table.select(_METRICS).to_numpy().astype(np.float64)
    base = float(values[:, _MEMORY].min())
    values[:, _MEMORY] = _memory_part(values[:, _MEMORY] - base, owner, len(names))
    steps = values * STEP_S
    totals = np.add.reduceat(steps, start, axis=0)
    before = np.cumsum(steps, axis=0) - steps
    return Shapes(
        names=names,
        start=start,
        length=length,
        values=values,
        sums=before - before[start][owner],
        totals=totals,
        demand=totals[:, _BUSY] / (length * STEP_S),
        base_memory_bytes=base,
    )


def _memory_part(used: Floats, owner: Ints, shapes: int) -> Floats:
    peak = np.zeros(shapes)
    np.maximum.at(peak, owner, used)
    return np.asarray(used / np.maximum(peak, 1.0)[owner])


@cache
def measured_shapes() -> Shapes:
    """Return the shapes that come with steward."""
    with files("steward.sim").joinpath("shapes.parquet").open("rb") as file:
        return _shapes(pl.read_parquet(file))
