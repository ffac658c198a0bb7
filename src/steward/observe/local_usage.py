"""How much jobs of this machine use what they hold: slots by processor time, GPUs by the driver.

A CPU slot has the columns of a GPU: its busy share is what its job's processes used of one core
per slot since the last look. Where two jobs share one by a loan, each has a row of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from steward.clients.local_jobs.devices import JobDevices
from steward.clients.local_jobs.usage import AttemptUsage
from steward.clients.nvml import DriverMissingError, GpuLostError
from steward.clients.nvml.processes import GpuProcesses
from steward.model.frame import ENTITY, T_S, Frame, empty_frame, job_entity, share_entity
from steward.model.identity import GpuId, JobId
from steward.model.job_loan import JobLoan
from steward.model.managed_job import LifeState, ManagedJob

__all__ = ["LocalUsage"]

_METRICS = ("gpu.busy_share", "gpu.memory.used_bytes", "share.busy_share", "job.cpu_seconds")
_AWAY = (LifeState.SUSPENDED, LifeState.LENT)


@dataclass
class LocalUsage:
    """Remembers the last look, for what was used since."""

    devices: JobDevices
    usage: AttemptUsage
    _cpu: dict[tuple[JobId, int], tuple[float, float]] = field(default_factory=dict)  # t_s, s
    _processes: dict[GpuId, GpuProcesses] = field(default_factory=dict)

    def sample(self, jobs: Iterable[ManagedJob], loans: Sequence[JobLoan], t_s: float) -> Frame:
        """Return rows of jobs, of slots, and of the parts of what is shared."""
        held = {job.id: job for job in jobs if job.gpus}
        numbers = {id_: job.attempts[-1].number for id_, job in held.items()}
        cpu_s = self.usage.cpu_seconds(numbers.items())
        cores = self._cores({(id_, numbers[id_]): each for id_, each in cpu_s.items()}, t_s)
        rows: dict[str, dict[str, float]] = {
            job_entity(id_): {"job.cpu_seconds": each} for id_, each in cpu_s.items()
        }
        rows |= self._slot_rows(held, cores)
        for loan in loans:
            rows |= self._loan_rows(loan, held)
        if not rows:
            return empty_frame()
        schema = {T_S: pl.Float64, ENTITY: pl.String, **dict.fromkeys(_METRICS, pl.Float64)}
        return pl.DataFrame(
            [{T_S: t_s, ENTITY: name, **row} for name, row in rows.items()], schema=schema
        )

    def _cores(self, cpu_s: Mapping[tuple[JobId, int], float], t_s: float) -> dict[JobId, float]:
        """Return how many cores each job kept busy since the last look."""
        before, self._cpu = self._cpu, {key: (t_s, each) for key, each in cpu_s.items()}
        found = {}
        for key, now in cpu_s.items():
            then_s, then = before.get(key, (t_s, now))
            if t_s > then_s:
                found[key[0]] = max(now - then, 0.0) / (t_s - then_s)
        return found

    def _slot_rows(
        self, held: Mapping[JobId, ManagedJob], cores: Mapping[JobId, float]
    ) -> dict[str, dict[str, float]]:
        users: dict[GpuId, list[tuple[JobId, float]]] = {}
        for id_, job in held.items():
            used = 0.0 if job.state is LifeState.LENT else cores.get(id_)
            if used is None:
                continue  # it was not seen twice yet
            for gpu in job.gpus:
                users.setdefault(gpu, []).append((id_, min(used / len(job.gpus), 1.0)))
        rows: dict[str, dict[str, float]] = {}
        taken = {gpu for job in held.values() for gpu in job.gpus}
        for slot in self.devices.slots:
            parts = users.get(slot.id, [])
            if slot.id in users or slot.id not in taken:  # else it is not known yet
                busy = min(sum(each for _, each in parts), 1.0)
                rows[slot.id] = {"gpu.busy_share": busy, "gpu.memory.used_bytes": 0.0}
            for id_, each in parts if len(parts) > 1 else ():
                rows[share_entity(slot.id, id_)] = {"share.busy_share": each}
        return rows

    # -- GPUs on loan ----------------------------------------------------------------------------

    def _loan_rows(
        self, loan: JobLoan, held: Mapping[JobId, ManagedJob]
    ) -> dict[str, dict[str, float]]:
        """Return who used how much of lent GPUs; an owner that is away used nothing."""
        rows: dict[str, dict[str, float]] = {}
        for gpu in loan.gpus:
            busy = self._busy(gpu) if gpu in self.devices.uuids else None
            for id_ in (loan.owner, loan.borrower) if gpu in self.devices.uuids else ():
                job = held.get(id_)
                if job is not None and job.state in _AWAY:
                    rows[share_entity(gpu, id_)] = {"share.busy_share": 0.0}
                elif job is not None and busy is not None:
                    mine = self.usage.pids(id_, job.attempts[-1].number)
                    used = sum(share for pid, share in busy.items() if pid in mine)
                    rows[share_entity(gpu, id_)] = {"share.busy_share": min(used, 1.0)}
        return rows

    def _busy(self, gpu: GpuId) -> dict[int, float] | None:
        """Return the busy share of each process on a GPU; None where the driver has none."""
        if self.devices.driver is None:
            return None
        if gpu not in self._processes:
            index = int(gpu.rpartition("gpu")[2])
            self._processes[gpu] = GpuProcesses(self.devices.driver.library, index)
        try:
            found = self._processes[gpu].read()
        except (GpuLostError, DriverMissingError):
            return None
        if any(each.busy_percent is None for each in found):
            return None
        return {each.pid: (each.busy_percent or 0.0) / 100 for each in found}
