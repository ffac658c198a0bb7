"""Estimator of the phase of its run that each GPU is in: `phase.NAME_probability` columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.learn.workloads.phases import PhaseFilter, PhaseSignals
from steward.model.forecast import (
    PHASES,
    About,
    Forecast,
    ForecastColumn,
    phase_probability,
)
from steward.model.job import JobRequest
from steward.model.outcome import Outcome
from steward.model.view import ClusterView

__all__ = ["WorkloadPhases"]

Floats = NDArray[np.float64]
LONGEST_GAP_S = 600.0  # after a longer one, what was believed before says nothing


class WorkloadPhases:
    """Recognise start, compile, load, train, evaluate, checkpoint and idle on each held GPU.

    A GPU beside others of its job that compute is judged by itself: the work of the host belongs
    to those, so it does not count for the quiet one.
    """

    def __init__(self) -> None:
        self.name = "workload-phases"
        self._ids: NDArray[np.object_] = np.empty(0, dtype=object)
        self._owners: list[str] = []
        self._filter = PhaseFilter(0)
        self._t_s = np.nan
        self._belief: Floats = np.empty((0, len(PHASES)))

    def learn(self, view: ClusterView, outcomes: Sequence[Outcome]) -> None:  # noqa: ARG002 - the port's
        self._follow(view)
        elapsed_s = view.t_s - self._t_s
        if elapsed_s <= 0:
            return
        if not elapsed_s <= LONGEST_GAP_S:  # also the first time
            self._filter.forget(np.ones(len(self._ids), dtype=bool))
            elapsed_s = 0.0
        self._belief = self._filter.update(_signals(view), elapsed_s)
        self._t_s = view.t_s

    def predict(self, view: ClusterView) -> tuple[ForecastColumn, ...]:
        self._follow(view)
        known = (view.gpus.owner >= 0) & ~np.isnan(view.gpus.owner_busy_share)
        return tuple(
            _column(np.where(known, self._belief[:, place], np.nan), phase, self.name)
            for place, phase in enumerate(PHASES)
        )

    def estimate(self, _: JobRequest) -> tuple[Forecast, ...]:
        """Return nothing: phases are those of jobs that run."""
        return ()

    @property
    def state_version(self) -> int:
        return 1

    def save_state(self) -> dict[str, Any]:
        return {
            "gpus": [str(id_) for id_ in self._ids],
            "owners": list(self._owners),
            "t_s": float(self._t_s),
            "log_belief": self._filter.log_belief,
            "computed": self._filter.computed,
            "usual_watts": self._filter.usual_watts,
            "busy_s": self._filter.busy_s,
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        ids = np.array(state["gpus"], dtype=object)
        made = PhaseFilter(len(ids))
        made.log_belief = np.array(state["log_belief"], dtype=np.float64)
        made.computed = np.array(state["computed"], dtype=bool)
        made.usual_watts = np.array(state["usual_watts"], dtype=np.float64)
        made.busy_s = np.array(state["busy_s"], dtype=np.float64)
        owners = [str(each) for each in state["owners"]]
        shape = (len(ids), len(PHASES))
        columns = (owners, made.computed, made.usual_watts, made.busy_s)
        if made.log_belief.shape != shape or {len(each) for each in columns} != {len(ids)}:
            raise ValueError("columns differ in length")
        self._ids, self._owners, self._filter = ids, owners, made
        self._t_s, self._belief = float(state["t_s"]), np.exp(made.log_belief)

    def _follow(self, view: ClusterView) -> None:
        """Keep the rows in step with the view's, and start anew where the owner changed."""
        owners = [str(view.jobs.ids[row]) if row >= 0 else "" for row in view.gpus.owner.tolist()]
        if self._ids is not view.gpus.ids:
            self._reorder(view.gpus.ids)
        if owners != self._owners:
            pairs = zip(owners, self._owners, strict=True)
            changed = np.array([new != old for new, old in pairs], dtype=bool)
            self._filter.forget(changed)
            self._belief[changed] = np.exp(self._filter.log_belief[changed])
            self._owners = owners

    def _reorder(self, ids: NDArray[np.object_]) -> None:
        old, old_owners, old_belief = self._filter, self._owners, self._belief
        row_of = {str(id_): row for row, id_ in enumerate(self._ids)}
        made = PhaseFilter(len(ids))
        belief, owners = np.exp(made.log_belief), [""] * len(ids)
        for row, id_ in enumerate(ids):
            before = row_of.get(str(id_))
            if before is not None:
                made.log_belief[row] = old.log_belief[before]
                made.computed[row] = old.computed[before]
                made.usual_watts[row] = old.usual_watts[before]
                made.busy_s[row] = old.busy_s[before]
                belief[row], owners[row] = old_belief[before], old_owners[before]
        self._ids, self._filter, self._belief, self._owners = ids, made, belief, owners


def _signals(view: ClusterView) -> PhaseSignals:
    """Return what the view shows of each GPU's owner; hosts at work for other GPUs are left out."""
    gpus, jobs = view.gpus, view.jobs
    held = gpus.owner >= 0
    quiet = ~np.isnan(gpus.quiet_since_s)
    computing = np.zeros(len(jobs) + 1, dtype=bool)
    computing[gpus.owner[held & ~quiet & ~np.isnan(gpus.owner_busy_share)]] = True
    beside = quiet & computing[gpus.owner]

    def of_owner(column: Floats) -> Floats:
        values = np.append(column, np.nan)[gpus.owner]
        return np.where(beside, np.where(np.isnan(values), np.nan, 0.0), values)

    return PhaseSignals(
        busy_share=gpus.owner_busy_share,
        cores=of_owner(jobs.cpu_busy_cores),
        read_bytes_per_s=of_owner(jobs.read_bytes_per_s),
        write_bytes_per_s=of_owner(jobs.write_bytes_per_s),
        held_bytes=gpus.memory_used_bytes,
        power_watts=np.where(gpus.users == 1, gpus.power_watts, np.nan),
    )


def _column(values: Floats, phase: str, basis: str) -> ForecastColumn:
    return ForecastColumn(
        about=About.GPUS,
        quantity=phase_probability(phase),
        low=values,
        mid=values,
        high=values,
        basis=basis,
    )
