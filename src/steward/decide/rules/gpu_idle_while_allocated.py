"""Find GPUs that a job holds and leaves idle without a known reason."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.model.finding import Evidence, Finding, Severity
from steward.model.forecast import UNEXPLAINED_S, About, phase_probability
from steward.model.frame import job_entity, share_entity
from steward.model.identity import FindingId, GpuId, JobId, stable_id
from steward.model.view import ClusterView

__all__ = ["GpuIdleWhileAllocated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuIdleWhileAllocated:
    """Report one finding per job whose GPUs have been idle for `idle_after_s` seconds.

    Compiling, loading data and writing checkpoints do not count as idle: the estimator
    `quiet-phases` leaves them out of what it calls unexplained. Where `workload-phases` is all but
    certain that the run idles, `sure_after_s` seconds suffice.
    """

    idle_after_s: float = 300.0
    sure_after_s: float = 120.0
    sure_probability: float = 0.99
    name: str = "gpu-idle-while-allocated"

    def detect(self, view: ClusterView) -> tuple[Finding, ...]:
        """Return findings in the order of the GPUs."""
        column = view.forecast(About.GPUS, UNEXPLAINED_S)
        if column is None:
            return ()
        with np.errstate(invalid="ignore"):
            rows = np.flatnonzero((column.mid >= self._after_s(view)) & (view.gpus.owner >= 0))
        by_owner: dict[int, list[int]] = {}
        for row, owner in zip(rows.tolist(), view.gpus.owner[rows].tolist(), strict=True):
            by_owner.setdefault(owner, []).append(row)
        return tuple(
            self._finding(view, owner, gpus, longest_s=float(column.mid[gpus].max()))
            for owner, gpus in by_owner.items()
        )

    def _after_s(self, view: ClusterView) -> NDArray[np.float64]:
        """Return how long each GPU has to be idle before it is reported."""
        phase = view.forecast(About.GPUS, phase_probability("idle"))
        sure = np.zeros(len(view.gpus), dtype=bool)
        if phase is not None:
            sure = np.nan_to_num(phase.low) >= self.sure_probability
        return np.where(sure, min(self.sure_after_s, self.idle_after_s), self.idle_after_s)

    def _finding(
        self, view: ClusterView, owner: int, rows: list[int], *, longest_s: float
    ) -> Finding:
        since_s = view.t_s - longest_s
        job = view.job_id(owner)
        gpus = tuple(view.gpu_id(row) for row in rows)
        held = int(view.jobs.gpus[owner])
        tenant = int(view.jobs.tenant[owner])
        return Finding(
            id=FindingId(stable_id("f", self.name, job, round(since_s))),
            t_s=view.t_s,
            rule=self.name,
            subject=job,
            title=f"job {job} has left {_named(gpus, held)} idle for {_long(longest_s)}",
            severity=Severity.WASTE,
            since_s=since_s,
            evidence=(
                *(_busy(view, row, job, since_s) for row in rows),
                _host(view, owner, job, since_s),
            ),
            job=job,
            tenant=view.tenant_id(tenant) if tenant >= 0 else None,
            gpus=gpus,
        )


def _named(gpus: tuple[GpuId, ...], held: int) -> str:
    if len(gpus) > 1:
        return f"{len(gpus)} of its {held} GPUs"
    return f"its GPU {gpus[0]}" if held == 1 else f"{gpus[0]}, 1 of its {held} GPUs,"


def _busy(view: ClusterView, row: int, job: JobId, since_s: float) -> Evidence:
    gpu: GpuId = view.gpu_id(row)
    lent = view.gpus.borrower[row] >= 0
    return Evidence(
        entity=share_entity(gpu, job) if lent else gpu,
        metric="share.busy_share" if lent else "gpu.busy_share",
        from_s=since_s,
        to_s=view.t_s,
        says=f"its owner used {gpu} {view.gpus.owner_busy_share[row]:.0%} of the time",
    )


def _host(view: ClusterView, owner: int, job: JobId, since_s: float) -> Evidence:
    cores = view.jobs.cpu_busy_cores[owner]
    return Evidence(
        entity=job_entity(job),
        metric="job.cpu.busy_cores",
        from_s=since_s,
        to_s=view.t_s,
        says=f"its host side kept {cores:.2f} cores busy: not compiling, loading or saving",
    )


def _long(seconds: float) -> str:
    """Return a duration in seconds or minutes.

    >>> _long(90), _long(5400)
    ('90 s', '90 min')
    """
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
