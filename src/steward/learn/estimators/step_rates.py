"""Estimator of how much slower jobs step now than before: on other GPUs, or without neighbours."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from steward.model.forecast import SLOWDOWN_SHARE, About, Forecast, ForecastColumn
from steward.model.identity import JobId
from steward.model.job import JobRequest
from steward.model.outcome import Outcome
from steward.model.view import RUNNING, ClusterView

__all__ = ["StepRates"]

Z90 = 1.645  # nine of ten cases
MOST_WINDOWS = 40
MOST_CONDITIONS = 8  # that are kept of one job
NOISE_SHARE = 0.003  # no speed is known better than this


@dataclass(frozen=True, slots=True, kw_only=True)
class _Condition:
    """Under what a job steps. Speeds compare where `kind`, the number and model of GPUs, is one."""

    kind: str
    gpus: tuple[str, ...]
    beside: tuple[str, ...]  # other jobs on these GPUs


@dataclass(slots=True, kw_only=True)
class _JobRecord:
    """Speeds of one job's windows, by condition; `fresh` counts those since the present began."""

    present: _Condition
    seen_s: float
    step: float
    step_s: float
    fresh: int = 0
    windows: dict[_Condition, deque[float]] = field(default_factory=dict)


class StepRates:
    """Compare the last windows of a job's own steps with its best ones, like for like.

    A window is `window_s` long at least and has `least_steps` steps, all under one condition: on
    the same GPUs, beside the same jobs. What is compared has `least_windows` of them, by medians.
    Phases of a job that are slower by themselves look the same: who acts needs another reason, too.
    """

    def __init__(
        self,
        *,
        window_s: float = 30.0,
        least_steps: int = 5,
        least_windows: int = 3,
        memory: int = 500,
    ) -> None:
        self.name = "step-rates"
        self.window_s = window_s
        self.least_steps = least_steps
        self.least_windows = least_windows
        self.memory = memory
        self._jobs: dict[JobId, _JobRecord] = {}

    # -- learning ------------------------------------------------------------------------------

    def learn(self, view: ClusterView, outcomes: Sequence[Outcome]) -> None:  # noqa: ARG002 - the port's
        for row, condition in _followed(view):
            step, step_s = float(view.jobs.step_count[row]), float(view.jobs.step_s[row])
            self._take(view.job_id(row), condition, step, step_s, view.t_s)
        for job in view.ended:
            self._jobs.pop(job.id, None)
        for id_ in sorted(self._jobs, key=lambda each: self._jobs[each].seen_s)[: -self.memory]:
            del self._jobs[id_]

    def _take(
        self, id_: JobId, condition: _Condition, step: float, step_s: float, t_s: float
    ) -> None:
        record = self._jobs.get(id_)
        if record is None:
            self._jobs[id_] = _JobRecord(present=condition, seen_s=t_s, step=step, step_s=step_s)
            return
        record.seen_s = t_s
        passed_s, steps = step_s - record.step_s, step - record.step
        if record.present != condition or steps < 0 or passed_s > 20 * self.window_s:
            fresh = record.fresh if record.present == condition else 0
            record.present, record.fresh = condition, fresh
            record.step, record.step_s = step, step_s
        elif passed_s >= self.window_s and steps >= self.least_steps:
            kept = record.windows.setdefault(condition, deque(maxlen=MOST_WINDOWS))
            kept.append(steps / passed_s)
            record.fresh += 1
            record.step, record.step_s = step, step_s
            if len(record.windows) > MOST_CONDITIONS:
                del record.windows[next(each for each in record.windows if each != condition)]

    # -- what is believed ----------------------------------------------------------------------

    def predict(self, view: ClusterView) -> tuple[ForecastColumn, ...]:
        low, mid, high = np.full((3, len(view.jobs)), np.nan)
        for row, condition in _followed(view):
            record = self._jobs.get(view.job_id(row))
            if record is not None and record.present == condition:
                low[row], mid[row], high[row] = self._slowdown(record)
        known = int((~np.isnan(mid)).sum())
        return (
            ForecastColumn(
                about=About.JOBS,
                quantity=SLOWDOWN_SHARE,
                low=low,
                mid=mid,
                high=high,
                basis=f"{self.name}, {known} jobs compared",
            ),
        )

    def _slowdown(self, record: _JobRecord) -> tuple[float, float, float]:
        """Return by how much a job is slower than at its best, or what is no number."""
        now = list(record.windows.get(record.present, ()))[-self.least_windows :]
        others = [self._before(record, each) for each in record.windows]
        known = [_median(each) for each in others if len(each) >= self.least_windows]
        if record.fresh < self.least_windows or not known:
            return (np.nan, np.nan, np.nan)
        (speed, error), (best, best_error) = _median(now), max(known)
        ratio = speed / best
        half = Z90 * ratio * float(np.hypot(error, best_error))
        low, mid, high = np.clip((1.0 - ratio - half, 1.0 - ratio, 1.0 - ratio + half), 0.0, 1.0)
        return float(low), float(mid), float(high)

    def _before(self, record: _JobRecord, condition: _Condition) -> list[float]:
        """Return windows to compare with: of the present condition, those before the last ones."""
        if condition.kind != record.present.kind:
            return []
        windows = list(record.windows[condition])
        return windows[: -self.least_windows] if condition == record.present else windows

    def estimate(self, _: JobRequest) -> tuple[Forecast, ...]:
        """Return nothing: a job is compared with itself."""
        return ()

    # -- state ---------------------------------------------------------------------------------

    @property
    def state_version(self) -> int:
        return 1

    def save_state(self) -> dict[str, Any]:
        return {
            "jobs": {
                str(id_): {
                    "present": _plain(record.present),
                    "seen_s": record.seen_s,
                    "fresh": record.fresh,
                    "windows": [[_plain(x), list(kept)] for x, kept in record.windows.items()],
                }
                for id_, record in self._jobs.items()
            }
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        self._jobs = {
            JobId(str(id_)): _JobRecord(
                present=_condition(saved["present"]),
                seen_s=float(saved["seen_s"]),
                step=float("inf"),  # the window that was open is lost: the next look begins one
                step_s=0.0,
                fresh=int(saved["fresh"]),
                windows={
                    _condition(each): deque(map(float, kept), maxlen=MOST_WINDOWS)
                    for each, kept in saved["windows"]
                },
            )
            for id_, saved in state["jobs"].items()
        }


def _followed(view: ClusterView) -> list[tuple[int, _Condition]]:
    """Return the jobs that run on GPUs and report steps, each with its condition."""
    jobs, where = view.jobs, view.allocations
    wanted = np.flatnonzero((jobs.state == RUNNING) & ~np.isnan(jobs.step_count))
    found = []
    for row in wanted.tolist():
        rows = np.sort(where.gpu[where.job == row])
        if len(rows):
            shared = rows[view.gpus.users[rows] > 1]
            others = np.unique(where.job[np.isin(where.gpu, shared)])
            beside = tuple(sorted(view.job_id(each) for each in others.tolist() if each != row))
            models = sorted({view.models[each] for each in view.gpus.model[rows]})
            condition = _Condition(
                kind=f"{len(rows)} {'+'.join(models)}",
                gpus=tuple(str(each) for each in view.gpus.ids[rows]),
                beside=beside,
            )
            found.append((row, condition))
    return found


def _median(speeds: Sequence[float]) -> tuple[float, float]:
    """Return the median of speeds, and its standard error as a share of it."""
    middle = float(np.median(speeds))
    spread = 1.4826 * float(np.median(np.abs(np.array(speeds) - middle))) / middle
    return middle, max(1.2533 * spread / float(np.sqrt(len(speeds))), NOISE_SHARE)


def _plain(condition: _Condition) -> list[Any]:
    return [condition.kind, list(condition.gpus), list(condition.beside)]


def _condition(saved: Sequence[Any]) -> _Condition:
    kind, gpus, beside = saved
    return _Condition(kind=str(kind), gpus=tuple(gpus), beside=tuple(beside))
