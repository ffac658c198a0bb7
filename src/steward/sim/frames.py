"""Turns the world's integrals into telemetry, for all GPUs and jobs of one instant at once.

`gpu.busy_share`, `gpu.sm.active_share`, `share.busy_share` and all rates of jobs are means over
the period since the last sample, as the table of metrics defines them; NVML keeps its short windows
in a buffer from which a collector takes that mean. A mean over the whole period is unbiased and has
no sampling error: values times period add up to the exact integral. A short window at the end of
each period would be unbiased too, but noisy. Power, temperature and memory are levels of the
instant.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.model.frame import ENTITY, T_S, Frame, empty_frame, job_entity, share_entity
from steward.model.identity import JobId
from steward.sim.cluster import BORROWER, NOBODY, OWNER
from steward.sim.loans import Ledger
from steward.sim.meter import WorkMeter
from steward.sim.shapes import GPU_LEVELS

__all__ = ["FrameSampler"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_COLUMNS = (
    "gpu.busy_share",
    "gpu.sm.active_share",
    "gpu.memory.used_bytes",
    "gpu.power_watts",
    "gpu.temperature_celsius",
    "job.cpu.busy_cores",
    "job.disk.read_bytes_per_s",
    "job.disk.write_bytes_per_s",
    "share.busy_share",
    "share.memory.used_bytes",
    "host.load_1m",
)
_GPU = slice(0, 5)
_JOB = slice(5, 8)
_SHARE = slice(8, 10)
_HOST = 10
_AMBIENT_CELSIUS = 34.0  # of a GPU on which nothing runs, as measured
_HOTTEST_CELSIUS = 85.0  # where an H200 begins to slow itself down


class _Block(NamedTuple):
    """The rows of one instant: a name each, and a column of values per row."""

    t_s: float
    names: list[str]
    values: Floats


class FrameSampler:
    """Takes samples at given times and keeps them until somebody wants them as a frame."""

    def __init__(self, meter: WorkMeter, ledger: Ledger, *, begin_s: float) -> None:
        self._meter = meter
        self._ledger = ledger
        self._last_s = begin_s
        self._blocks: list[_Block] = []
        self._gpu_names = np.array(meter.cluster.ids, dtype=object)
        self._node_names = [node.id for node in meter.cluster.cluster.nodes]

    def take(self, t_s: float) -> None:
        """Sample everything that reports at `t_s`: a broken GPU does not, its node does."""
        meter = self._meter
        period_s = t_s - self._last_s
        meter.settle_all(t_s)
        shares = self._shares(t_s, period_s)
        healthy = np.flatnonzero(meter.cluster.healthy)
        slots = np.flatnonzero(meter.size)
        names: list[str] = self._gpu_names[healthy].tolist()
        names += [job_entity(life.id) for life in map(meter.lives.__getitem__, slots) if life]
        names += [name for name, _, _ in shares]
        hosts_from = len(names)
        names += self._node_names
        values = np.full((len(_COLUMNS), len(names)), np.nan)
        values[_HOST, hosts_from:] = self._loads(period_s)
        jobs_from, shares_from = len(healthy), len(healthy) + len(slots)
        values[_GPU, :jobs_from] = self._gpus(t_s, period_s)[:, healthy]
        values[_JOB, jobs_from:shares_from] = meter.host_period[slots].T / period_s
        for i, (_, busy, memory_bytes) in enumerate(shares, start=shares_from):
            values[_SHARE, i] = busy, memory_bytes
        self._blocks.append(_Block(t_s, names, values))
        self._last_s = t_s
        self._ledger.lately.clear()
        meter.clear_period()

    def drain(self) -> Frame:
        """Return all samples since the last call as one frame."""
        blocks, self._blocks = self._blocks, []
        if not blocks:
            return empty_frame()
        values = np.concatenate([block.values for block in blocks], axis=1)
        rows = [len(block.names) for block in blocks]
        columns = [
            pl.Series(T_S, np.repeat([block.t_s for block in blocks], rows)),
            pl.Series(ENTITY, [name for block in blocks for name in block.names]),
        ]
        columns += [
            pl.Series(name, column, nan_to_null=True)
            for name, column in zip(_COLUMNS, values, strict=True)
        ]
        return pl.DataFrame(columns)

    def _loads(self, period_s: float) -> Floats:
        """Return by node how many cores its jobs keep busy."""
        meter, cluster = self._meter, self._meter.cluster
        loads = np.zeros(len(self._node_names))
        for seat in (OWNER, BORROWER):
            gpus = np.flatnonzero(cluster.seats[seat] != NOBODY)
            slots = cluster.seats[seat, gpus]
            cores = meter.host_period[slots, 0] / meter.size[slots] / period_s
            np.add.at(loads, cluster.node[gpus], cores)
        return loads

    def _gpus(self, t_s: float, period_s: float) -> Floats:
        """Return one column per GPU. Two jobs on one GPU add to what it shows."""
        meter, cluster = self._meter, self._meter.cluster
        everyone = np.arange(len(cluster))
        borrowed = np.flatnonzero(cluster.seats[BORROWER] != NOBODY)
        levels = self._levels(OWNER, everyone, t_s)
        extra = self._levels(BORROWER, borrowed, t_s)
        rise = np.array([0.0, 0.0, _AMBIENT_CELSIUS])
        levels[borrowed] += extra - rise
        levels[borrowed, 1] -= cluster.idle_watts[borrowed]
        values = np.empty((5, len(cluster)))
        values[0:2] = np.minimum((meter.period.sum(axis=0) + meter.past).T / period_s, 1.0)
        values[2] = meter.shapes.base_memory_bytes + levels[:, 0]
        values[3] = np.clip(levels[:, 1], 0.0, cluster.max_watts)
        values[4] = np.minimum(levels[:, 2], _HOTTEST_CELSIUS)
        return values

    def _levels(self, seat: int, gpus: Ints, t_s: float) -> Floats:
        """Return memory, power and temperature of one job each; slowed jobs draw less power."""
        meter = self._meter
        slots = meter.cluster.seats[seat, gpus]
        values = meter.shapes.value(
            meter.shape[slots], meter.seat_tau_s(seat, gpus, t_s), GPU_LEVELS
        )
        values[:, 0] *= meter.peak_bytes[slots]
        idle_watts = meter.cluster.idle_watts[gpus]
        values[:, 1] = idle_watts + (values[:, 1] - idle_watts) * meter.speed[slots]
        return values

    def _shares(self, t_s: float, period_s: float) -> list[tuple[str, float, float]]:
        """Return name, busy share and memory of each job's part of the GPUs that are shared.

        A loan that ended since the last sample is still in it, for what it did until then.
        """
        pairs: dict[tuple[int, JobId], float] = {}
        for loan in self._ledger.open.values():
            for row in loan.gpus.tolist():
                pairs[row, loan.owner.id] = pairs[row, loan.borrower.id] = 0.0
        pairs |= self._ledger.lately
        healthy = self._meter.cluster.healthy
        return [
            self._share(row, job, t_s=t_s, period_s=period_s, gone=gone)
            for (row, job), gone in sorted(pairs.items())
            if healthy[row]
        ]

    def _share(
        self, row: int, job: JobId, *, t_s: float, period_s: float, gone: float
    ) -> tuple[str, float, float]:
        meter, busy, memory_bytes = self._meter, gone, 0.0
        for seat in (OWNER, BORROWER):
            life = meter.lives[meter.cluster.seats[seat, row]]
            if life is not None and life.id == job:
                busy += float(meter.period[seat, row, 0])
                memory_bytes += float(self._levels(seat, np.array([row]), t_s)[0, 0])
        return share_entity(meter.cluster.ids[row], job), busy / period_s, memory_bytes
