"""Estimator that separates unused GPUs from those whose job is busy on the host.

Compiling, loading data and writing a checkpoint leave a GPU quiet for good reasons, and each of
them shows on the job's host side. Measured on an H200 (`benchmarks/quiet_phases.py`): a job that
holds its GPU and does nothing keeps below 0.1 cores busy and touches no disk; compiling and
loading keep one core or more busy, a checkpoint writes hundreds of megabytes a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.model.forecast import UNEXPLAINED_S, About, Forecast, ForecastColumn
from steward.model.job import JobRequest
from steward.model.outcome import Outcome
from steward.model.view import ClusterView

__all__ = ["QuietPhases"]


class QuietPhases:
    """Measure how long each GPU has been quiet without a reason on the host side.

    A job is at work on the host when it keeps `busy_cores` busy or moves `busy_bytes_per_s` to or
    from storage. That explains its quiet GPUs only while all of them are quiet: beside a GPU that
    computes, the host's work belongs to that one. A host side that cannot be seen explains
    everything, because lending on a guess is worse than not lending.
    """

    def __init__(self, *, busy_cores: float = 0.3, busy_bytes_per_s: float = 5e6) -> None:
        self.name = "quiet-phases"
        self.busy_cores = busy_cores
        self.busy_bytes_per_s = busy_bytes_per_s
        self._ids: NDArray[np.object_] = np.empty(0, dtype=object)
        self._since_s: NDArray[np.float64] = np.empty(0)
        self._at_work: NDArray[np.bool_] = np.empty(0, dtype=bool)  # quiet, with its host at work

    def learn(self, view: ClusterView, outcomes: Sequence[Outcome]) -> None:  # noqa: ARG002 - the port's
        self._follow(view)
        unexplained = self._unexplained(view)
        begins = unexplained & np.isnan(self._since_s)
        # A quiet spell began when the GPU went quiet, unless its host side was at work until now.
        starts = np.where(self._at_work, view.t_s, view.gpus.quiet_since_s)
        self._since_s[begins] = starts[begins]
        self._since_s[~unexplained] = np.nan
        self._at_work = ~unexplained & ~np.isnan(view.gpus.quiet_since_s)

    def predict(self, view: ClusterView) -> tuple[ForecastColumn, ...]:
        self._follow(view)
        seconds = view.t_s - self._since_s
        return (
            ForecastColumn(
                about=About.GPUS,
                quantity=UNEXPLAINED_S,
                low=seconds,
                mid=seconds,
                high=seconds,
                basis=self.name,
            ),
        )

    def estimate(self, _: JobRequest) -> tuple[Forecast, ...]:
        """Return nothing: quiet phases are observed, not predicted."""
        return ()

    @property
    def state_version(self) -> int:
        return 1

    def save_state(self) -> dict[str, Any]:
        return {
            "gpus": [str(id_) for id_ in self._ids],
            "since_s": self._since_s,
            "at_work": self._at_work,
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        ids = np.array(state["gpus"], dtype=object)
        since_s = np.array(state["since_s"], dtype=np.float64)
        at_work = np.array(state["at_work"], dtype=bool)
        if not len(ids) == len(since_s) == len(at_work):
            raise ValueError("columns differ in length")
        self._ids, self._since_s, self._at_work = ids, since_s, at_work

    def _unexplained(self, view: ClusterView) -> NDArray[np.bool_]:
        gpus, jobs = view.gpus, view.jobs
        quiet = ~np.isnan(gpus.quiet_since_s) & (gpus.owner >= 0)
        with np.errstate(invalid="ignore"):
            at_work = (
                (jobs.cpu_busy_cores >= self.busy_cores)
                | (jobs.read_bytes_per_s >= self.busy_bytes_per_s)
                | (jobs.write_bytes_per_s >= self.busy_bytes_per_s)
                | np.isnan(jobs.cpu_busy_cores)
            )
        held = gpus.owner >= 0
        computing = np.zeros(len(jobs) + 1, dtype=bool)
        computing[gpus.owner[held & ~quiet]] = True
        explains = np.append(at_work, False) & ~computing
        return quiet & ~explains[gpus.owner]

    def _follow(self, view: ClusterView) -> None:
        """Keep the rows in step with the view's, by name, when the cluster changed."""
        if self._ids is view.gpus.ids:
            return
        before = dict(zip(self._ids, self._since_s, strict=True))
        self._ids = view.gpus.ids
        self._since_s = np.array([before.get(id_, np.nan) for id_ in self._ids], dtype=np.float64)
        self._at_work = np.zeros(len(self._ids), dtype=bool)
