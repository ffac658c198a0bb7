"""Estimator of how much slower jobs are at lower power limits, and of what energy that saves."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.learn.power_fit import Belief, PowerFit, PowerPoint, fit_of
from steward.model.forecast import (
    POWER_FLOOR_WATTS,
    POWER_LIMIT_CHANGES,
    POWER_LIMITS_TRIED,
    POWER_PROVEN_WATTS,
    POWER_SAVING_SHARE,
    POWER_SLOWDOWN_SHARE,
    About,
    Forecast,
    ForecastColumn,
)
from steward.model.identity import JobId
from steward.model.job import JobRequest
from steward.model.outcome import Outcome
from steward.model.view import RUNNING, ClusterView

__all__ = ["PowerCurve"]

Ints = NDArray[np.int64]
SAME_WATTS = 1.0  # limits nearer than this are one
LEAST_METERED_SHARE = 0.5  # of a window in which the power has to be known
MOST_LIMITS = 16  # that are kept of one job
QUANTITIES = (
    POWER_SLOWDOWN_SHARE,
    POWER_FLOOR_WATTS,
    POWER_SAVING_SHARE,
    POWER_PROVEN_WATTS,
    POWER_LIMITS_TRIED,
    POWER_LIMIT_CHANGES,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """What a job and its GPUs count, at one moment under one limit."""

    limit_watts: float
    step: float
    step_s: float
    joules: float  # of all its GPUs
    drawn_s: float
    t_s: float
    gpus: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class _JobRecord:
    """What was measured of one job; (speed, watts per GPU) of each window, by limit."""

    kind: str  # model and number of its GPUs: on others it is another curve
    seen_s: float
    windows: dict[float, deque[tuple[float, float]]] = field(default_factory=dict)
    open: _Reading | None = None
    saved_joules: float = 0.0
    limit_watts: float = float("nan")  # in force when it was last looked at
    changes: int = 0


class PowerCurve:
    """Learn speed and power at each limit from windows of a job's own steps, by medians.

    A window is `window_s` long at least and has `least_steps` steps, all under one limit. A limit
    counts as measured after `least_windows` of them; the highest, which the others are compared
    with, after `reference_windows`. Only jobs whose owner allows a slowdown, that report steps and
    are alone on their GPUs are followed; the curves of the last `memory` are kept.
    """

    def __init__(
        self,
        *,
        window_s: float = 30.0,
        least_steps: int = 5,
        least_windows: int = 5,
        reference_windows: int = 10,
        memory: int = 200,
    ) -> None:
        self.name = "power-curve"
        self.window_s = window_s
        self.least_steps = least_steps
        self.least_windows = least_windows
        self.reference_windows = max(reference_windows, least_windows)
        self.memory = memory
        self._jobs: dict[JobId, _JobRecord] = {}

    # -- learning ------------------------------------------------------------------------------

    def learn(self, view: ClusterView, outcomes: Sequence[Outcome]) -> None:  # noqa: ARG002 - the port's
        for row in _followed(view):
            rows = view.allocations.gpu[view.allocations.job == row]
            reading = _reading(view, row, rows)
            if reading is not None:
                models = {view.models[each] for each in view.gpus.model[rows]}
                kind = f"{len(rows)} {'+'.join(sorted(models))}"
                self._take(view.job_id(row), kind, reading)
        for id_ in sorted(self._jobs, key=lambda each: self._jobs[each].seen_s)[: -self.memory]:
            del self._jobs[id_]

    def _take(self, id_: JobId, kind: str, now: _Reading) -> None:
        record = self._jobs.get(id_)
        if record is None or record.kind != kind:
            record = self._jobs[id_] = _JobRecord(kind=kind, seen_s=now.t_s)
        record.seen_s = now.t_s
        record.changes += abs(record.limit_watts - now.limit_watts) >= SAME_WATTS  # NaN is not
        record.limit_watts = now.limit_watts
        begun = record.open
        if begun is None or not _continues(begun, now):
            record.open = now
            return
        passed_s = now.step_s - begun.step_s
        if passed_s >= self.window_s and now.step - begun.step >= self.least_steps:
            record.open = now
            self._close(record, begun, now)
        elif passed_s > 20 * self.window_s:  # it stood still; that is not its speed
            record.open = now

    def _close(self, record: _JobRecord, begun: _Reading, now: _Reading) -> None:
        metered_s = now.drawn_s - begun.drawn_s
        if metered_s < LEAST_METERED_SHARE * (now.t_s - begun.t_s):
            return
        steps = now.step - begun.step
        speed = steps / (now.step_s - begun.step_s)
        watts = (now.joules - begun.joules) / metered_s / len(now.gpus)
        limit = next(
            (x for x in record.windows if abs(x - now.limit_watts) < SAME_WATTS), now.limit_watts
        )
        kept = record.windows.setdefault(limit, deque(maxlen=20))
        kept.append((speed, watts))
        if len(record.windows) > MOST_LIMITS:
            middle = sorted(record.windows)[1:-1]
            del record.windows[next(each for each in middle if each != limit)]
        fit = self._fit(record)
        if fit is not None and limit < fit.reference.limit_watts:
            without = fit.reference.joules_per_step * steps * len(now.gpus)
            record.saved_joules += without - watts / speed * steps * len(now.gpus)

    # -- what is believed ----------------------------------------------------------------------

    def predict(self, view: ClusterView) -> tuple[ForecastColumn, ...]:
        columns = {name: np.full((3, len(view.jobs)), np.nan) for name in QUANTITIES}
        known = 0
        for row in _followed(view):
            record = self._jobs.get(view.job_id(row))
            rows = view.allocations.gpu[view.allocations.job == row]
            if record is None or _reading(view, row, rows) is None:
                continue
            fit = self._fit(record)
            if fit is not None:
                known += 1
                for name, belief in self._beliefs(fit, record, view, row):
                    columns[name][:, row] = belief.low, belief.mid, belief.high
        return tuple(
            ForecastColumn(
                about=About.JOBS,
                quantity=name,
                low=low,
                mid=mid,
                high=high,
                basis=f"{self.name}, {known} jobs measured",
            )
            for name, (low, mid, high) in columns.items()
        )

    def _beliefs(
        self, fit: PowerFit, record: _JobRecord, view: ClusterView, row: int
    ) -> Iterable[tuple[str, Belief]]:
        allowed = float(view.jobs.max_slowdown_share[row])
        rows = view.allocations.gpu[view.allocations.job == row]
        now_watts = record.limit_watts
        least_watts = max(view.cluster.gpus[each].model.least_watts for each in rows)
        yield POWER_LIMITS_TRIED, _exactly(len(fit.points))
        yield POWER_LIMIT_CHANGES, _exactly(record.changes)
        yield POWER_PROVEN_WATTS, _exactly(fit.proven(allowed).limit_watts)
        here = [x for x in fit.points if abs(x.limit_watts - now_watts) < SAME_WATTS]
        if not here:
            return  # the limit was changed, and nothing is known of the job at this one yet
        yield POWER_SLOWDOWN_SHARE, fit.slowdown(now_watts)
        if least_watts <= 0:
            return
        floor = fit.floor(allowed, least_watts)
        yield POWER_FLOOR_WATTS, floor
        now = here[0].joules_per_step / fit.reference.joules_per_step
        then = fit.joules_share(floor.mid)
        low, mid, high = sorted(1.0 - each / now for each in (then.low, then.mid, then.high))
        yield POWER_SAVING_SHARE, Belief(low=low, mid=mid, high=high)

    def _fit(self, record: _JobRecord) -> PowerFit | None:
        top = max(record.windows, default=0.0)
        if len(record.windows.get(top, ())) < self.reference_windows:
            return None  # an error of the reference is one of each slowdown
        return fit_of(
            [
                _point(limit, windows)
                for limit, windows in record.windows.items()
                if len(windows) >= self.least_windows
            ]
        )

    def points(self, job: JobId) -> tuple[PowerPoint, ...]:
        """Return what was measured of a job, by limit, for people to read."""
        record = self._jobs.get(job)
        fit = self._fit(record) if record is not None else None
        return fit.points if fit is not None else ()

    def saved_joules(self, job: JobId) -> float:
        """Return the energy that caps have saved a job: its steps, each against one without."""
        record = self._jobs.get(job)
        return record.saved_joules if record is not None else 0.0

    def estimate(self, _: JobRequest) -> tuple[Forecast, ...]:
        """Return nothing: the curve of a job is learnt from its own steps."""
        return ()

    # -- state ---------------------------------------------------------------------------------

    @property
    def state_version(self) -> int:
        return 1

    def save_state(self) -> dict[str, Any]:
        return {
            "jobs": {
                str(id_): {
                    "kind": record.kind,
                    "seen_s": record.seen_s,
                    "saved_joules": record.saved_joules,
                    "changes": record.changes,
                    "limit_watts": record.limit_watts,
                    "windows": [
                        [limit, speed, watts]
                        for limit, kept in record.windows.items()
                        for speed, watts in kept
                    ],
                }
                for id_, record in self._jobs.items()
            }
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        jobs = {}
        for id_, saved in state["jobs"].items():
            record = _JobRecord(
                kind=str(saved["kind"]),
                seen_s=float(saved["seen_s"]),
                saved_joules=float(saved["saved_joules"]),
                changes=int(saved["changes"]),
                limit_watts=float(saved["limit_watts"]),
            )
            for limit, speed, watts in saved["windows"]:
                kept = record.windows.setdefault(float(limit), deque(maxlen=20))
                kept.append((float(speed), float(watts)))
            jobs[JobId(str(id_))] = record
        self._jobs = jobs


def _followed(view: ClusterView) -> list[int]:
    """Return the jobs that run, report steps, and whose owner allows a slowdown."""
    jobs = view.jobs
    wanted = (jobs.state == RUNNING) & (jobs.max_slowdown_share > 0) & ~np.isnan(jobs.step_count)
    return [int(row) for row in np.flatnonzero(wanted)]


def _reading(view: ClusterView, row: int, rows: Ints) -> _Reading | None:
    """Return what is counted now; None where GPUs are shared, or held to different limits."""
    gpus = view.gpus
    limits = gpus.power_limit_watts[rows]
    alone = len(rows) > 0 and bool((gpus.users[rows] == 1).all())
    if not alone or not np.ptp(limits) < SAME_WATTS:  # NaN is not
        return None
    return _Reading(
        limit_watts=float(limits.min()),
        step=float(view.jobs.step_count[row]),
        step_s=float(view.jobs.step_s[row]),
        joules=float(gpus.drawn_joules[rows].sum()),
        drawn_s=float(gpus.drawn_s[rows].mean()),
        t_s=view.t_s,
        gpus=tuple(str(each) for each in gpus.ids[rows]),
    )


def _continues(begun: _Reading, now: _Reading) -> bool:
    """Return whether a window goes on: nothing but its counters has changed."""
    same_limit = abs(begun.limit_watts - now.limit_watts) < SAME_WATTS
    return same_limit and begun.gpus == now.gpus and now.step >= begun.step


def _point(limit: float, windows: Sequence[tuple[float, float]]) -> PowerPoint:
    speeds = np.array([speed for speed, _ in windows])
    speed = float(np.median(speeds))
    spread = 1.4826 * float(np.median(np.abs(speeds - speed))) / speed
    return PowerPoint(
        limit_watts=limit,
        steps_per_s=speed,
        watts=float(np.median([watts for _, watts in windows])),
        error_share=1.2533 * spread / float(np.sqrt(len(speeds))),  # of a median
        windows=len(windows),
    )


def _exactly(value: float) -> Belief:
    return Belief(low=value, mid=value, high=value)
