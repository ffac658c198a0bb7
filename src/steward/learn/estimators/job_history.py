"""Estimator of run times from all that a job has in common with earlier ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.learn.gpu_scaling import GpuAdvice, ScalingRuns, advise
from steward.learn.job_contexts import JobFeatures
from steward.learn.remaining import mean_run_time_s, remaining_of
from steward.learn.run_time_draws import draws_of_left, uniform_draws
from steward.learn.run_time_history import JobForecast, RunTimeHistory
from steward.learn.survival import EDGES_S, LEVELS
from steward.learn.trace_history import learn_trace, trace_features
from steward.model.forecast import (
    RUN_LEFT_S,
    RUN_LIKELY_S,
    RUN_LIMITS_S,
    RUN_RANK_ALL_GPU_S,
    RUN_RANK_GPU_S,
    RUN_TYPICAL_S,
    RUN_USES_GPU_S,
    SIMILAR_JOBS,
    About,
    Forecast,
    ForecastColumn,
)
from steward.model.identity import JobId
from steward.model.job import Job, JobRequest, JobState
from steward.model.outcome import Outcome
from steward.model.trace import Trace
from steward.model.view import RUNNING, ClusterView

__all__ = ["JobHistory", "was_cut_off"]

Floats = NDArray[np.float64]

_NO_GPU = 0.001  # as in the lab: so that the time of jobs without GPUs counts, but little
_STALE = 1.05  # forecasts are renewed when so many times as much has been learned
_AT_LIMIT = 0.98  # of its time limit: who ended later was cut off
_FEW = 10
_TURNS = 1000
_KEPT = 7  # numbers of an open job
_SHORT_OF = ("memory", "oom", "time limit", "timeout", "preempt")


class JobHistory:
    """Learn run times by size, shape, tenant, user, name, script, time limit and what came last.

    What a job has in common with others is mixed by weights that are learned on-line, so that the
    closest does not have to be chosen. Jobs that run, and those that were cancelled or ended by
    their time limit or for want of memory, count as longer than they ran. Limits are calibrated by
    how often they held. At most `classes` contexts are kept, of which each remembers `memory` jobs
    and some `quick`; the one that was not learned from for longest is dropped.
    """

    def __init__(self, *, classes: int = 3000, memory: float = 300.0, quick: float = 8.0) -> None:
        self.name = "job-history"
        self._history = RunTimeHistory(classes=classes, memory=memory, quick=quick)
        self._scaling = ScalingRuns()
        self._open: dict[JobId, _OpenJob] = {}
        self._turns = 0  # since it was made or restored
        self._restored: dict[JobId, list[float]] = {}

    def learn(self, view: ClusterView, outcomes: Sequence[Outcome]) -> None:  # noqa: ARG002 - the port's
        for job in view.ended:
            self._learn_end(job)
        self._keep_open(view)
        self._turns += 1
        if self._turns > _TURNS:
            self._restored = {}  # of jobs that did not come back
        ran_s = _ran_s(view)
        for row in np.flatnonzero(view.jobs.state == RUNNING).tolist():
            self._history.runs(self._open[view.job_id(row)].forecast, float(ran_s[row]))

    def predict(self, view: ClusterView) -> tuple[ForecastColumn, ...]:
        self._keep_open(view)
        known = [self._renewed(self._open[id_]) for id_ in view.jobs.ids.tolist()]
        n, curve, ran_s = len(known), self._history.curve, _ran_s(view)
        left = np.array([each.left for each in known], np.float64).reshape(n, LEVELS)
        found = remaining_of(left, ran_s, curve)
        of_all = remaining_of(np.tile(self._history.of_all(), (n, 1)), ran_s, curve)
        size = np.maximum(view.jobs.gpus, _NO_GPU)
        facts = [(job.similar, job.uses_s, job.likely_s, *job.promised) for job in known]
        similar, uses, likely, *promised = np.array(facts, np.float64).reshape(n, 6).T
        return (
            self._column(RUN_LEFT_S, found.low_s, found.mid_s, found.high_s),
            self._column(RUN_RANK_GPU_S, *[found.rank_s * size] * 3),
            self._column(RUN_RANK_ALL_GPU_S, *[of_all.rank_s * size] * 3),
            self._column(RUN_TYPICAL_S, *[found.typical_s] * 3),
            self._column(RUN_USES_GPU_S, *[uses * size] * 3),
            self._column(SIMILAR_JOBS, *[similar] * 3),
            self._column(RUN_LIMITS_S, *promised),
            self._column(RUN_LIKELY_S, *[likely] * 3),
        )

    def estimate(self, request: JobRequest) -> tuple[Forecast, ...]:
        """Return the run time: likely range, limits that hold 90 of 100 jobs, likeliest value.

        A request of which nothing is known but its time limit is answered from that.
        """
        history = self._history
        made = history.forecast(_features(request))
        slot, count = history.narrowest(made)
        if not slot and request.time_limit_s is None:
            return ()
        most_s = np.inf if request.time_limit_s is None else request.time_limit_s
        basis = self._basis(made, slot, count, most_s)

        def forecast(quantity: str, *shares: float) -> Forecast:
            values = [min(history.quantile_s(made.left, share), most_s) for share in shares]
            low, mid, high = values
            return Forecast(
                subject=request.name, quantity=quantity, low=low, mid=mid, high=high, basis=basis
            )

        likely = min(history.likely_s(made.left), most_s)
        return (
            forecast(RUN_LEFT_S, 0.1, 0.5, 0.9),
            forecast(RUN_LIMITS_S, 0.05, 0.5, 0.95),
            Forecast(
                subject=request.name,
                quantity=RUN_LIKELY_S,
                low=likely / 2.0,
                mid=likely,
                high=min(likely * 2.0, max(most_s, likely)),
                basis=basis,
            ),
        )

    def learn_trace(self, trace: Trace) -> None:
        """Learn from a recorded workload, as if it had been seen happen."""
        for _ in learn_trace(self._history, trace):
            pass
        cut_off = trace.cut_off > 0
        for row, work in enumerate(trace_features(trace)):
            if not cut_off[row]:
                self._scaling.learn(work.kind, work.shape.gpus, float(trace.duration_s[row]))

    def recommend(self, request: JobRequest, *, worth: float = 0.5, most: int = 0) -> GpuAdvice:
        """Return how many GPUs are worth their while for work of this user and name."""
        return advise(self._scaling.of(_features(request).kind), worth=worth, most=most)

    def draws(
        self, requests: Sequence[JobRequest], ran_s: Sequence[float], *, count: int, seed: int
    ) -> Floats:
        """Return draws of how much longer jobs run that have run so long, one column each."""
        made = [self._history.forecast(_features(each)).left for each in requests]
        left = np.array(made, np.float64).reshape(len(requests), LEVELS)
        uniform = uniform_draws(count, len(requests), seed=seed)
        ran = np.asarray(ran_s, np.float64)
        limit_s = [np.inf if each.time_limit_s is None else each.time_limit_s for each in requests]
        drawn = draws_of_left(left, ran, self._history.curve, uniform)
        return np.minimum(drawn, np.maximum(np.array(limit_s, np.float64) - ran, 1.0))

    def _basis(self, made: JobForecast, slot: str, count: float, most_s: float) -> str:
        """Return what an estimate is from, and what it lacks."""
        history, jobs = self._history, round(count)
        if not slot:
            return f"{self.name}, no job has ended yet: from the time limit alone"
        parts = [f"{self.name}, {jobs} job{'s' * (jobs != 1)} of the same {slot}"]
        if slot == "all":
            parts = [f"{self.name}, {jobs} jobs of other sizes, users and names"]
        if count < _FEW:
            parts.append("few: limits are mostly of wider kinds")
        over = float(np.interp(most_s, EDGES_S, made.left)) if most_s < np.inf else 0.0
        if over >= 0.01:
            parts.append(f"{over:.0%} of such jobs would run past the time limit")
        if history.ended:
            parts.append(f"{history.ended} jobs learned from")
        return "; ".join(parts)

    @property
    def state_version(self) -> int:
        return 1

    def save_state(self) -> dict[str, Any]:
        kept = {
            id_: [*job.forecast.last, job.forecast.passed, job.uses_s, *job.promised]
            for id_, job in self._open.items()
        }
        return {
            **self._history.save_state(),
            "open": {**self._restored, **kept},
            "scaling": self._scaling.save_state(),
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        opened = {JobId(id_): [*map(float, kept)] for id_, kept in state["open"].items()}
        if any(len(kept) != _KEPT for kept in opened.values()):
            raise ValueError("what it kept of open jobs is of another form")
        scaling = ScalingRuns()
        scaling.restore_state(state["scaling"])
        self._history.restore_state(state)
        self._scaling = scaling
        self._open, self._restored, self._turns = {}, opened, 0

    # -- jobs ----------------------------------------------------------------------------------

    def _learn_end(self, job: Job) -> None:
        known = self._open.pop(job.id, None)
        if job.past.began_s is None:
            return
        work = _features(job)
        if known is None:
            forecast = self._history.forecast(work)
            forecast.calibrates = False  # it ended before it was seen: nothing was promised
        else:
            forecast = known.forecast
        self._history.ends(forecast, work, job.past.ran_s, cut_off=was_cut_off(job))
        if job.state is JobState.COMPLETED:
            self._scaling.learn(work.kind, work.shape.gpus, job.past.ran_s)

    def _keep_open(self, view: ClusterView) -> None:
        """Add jobs that are new or were changed, and drop those that are gone."""
        self._open = {id_: self._of(view.details[id_]) for id_ in view.jobs.ids.tolist()}

    def _of(self, job: Job) -> _OpenJob:
        known = self._open.get(job.id)
        if known is None:
            return self._new(job)
        if known.seen is not job:
            work = _features(job)
            if work != known.work:
                made = self._new(job)
                made.forecast.passed, made.forecast.calibrates = known.forecast.passed, False
                return made
            known.seen = job
        return known

    def _new(self, job: Job) -> _OpenJob:
        """Return what is expected of a job that was not seen before."""
        work = _features(job)
        if (before := self._restored.pop(job.id, None)) is None:
            forecast = self._history.forecast(work)
            uses_s = float(mean_run_time_s(forecast.left))
            promised = [forecast.low_s, forecast.mid_s, forecast.high_s]
            # one that ran before it was seen was promised nothing
            forecast.calibrates = job.past.began_s is None
        else:
            *last, passed, uses_s = before[:4]
            forecast = self._history.forecast(work, (int(last[0]), int(last[1])))
            forecast.passed, promised = int(passed), before[4:]
            forecast.calibrates = False  # its whole distribution is not kept over a restart
        return _OpenJob(
            seen=job,
            work=work,
            forecast=forecast,
            left=forecast.left,
            likely_s=self._history.likely_s(forecast.left),
            similar=self._history.similar(forecast),
            uses_s=uses_s,
            promised=promised,
            lessons=self._history.lessons,
        )

    def _renewed(self, job: _OpenJob) -> _OpenJob:
        """Return a job with its chances by what is known now, where much was learned since."""
        history = self._history
        if history.lessons > max(job.lessons * _STALE, job.lessons):
            job.left = history.renewed(job.forecast)
            job.likely_s = history.likely_s(job.left)
            job.similar = history.similar(job.forecast)
            job.lessons = history.lessons
        return job

    def _column(self, quantity: str, low: Floats, mid: Floats, high: Floats) -> ForecastColumn:
        basis = f"{self.name}, {self._history.ended} jobs"
        return ForecastColumn(
            about=About.JOBS, quantity=quantity, low=low, mid=mid, high=high, basis=basis
        )


@dataclass(slots=True, kw_only=True, eq=False)
class _OpenJob:
    """A job that waits or runs: what was promised when it came, and what is expected by now."""

    seen: Job
    work: JobFeatures
    forecast: JobForecast
    left: Floats
    likely_s: float
    similar: float
    uses_s: float  # mean run time as it was expected when it came
    promised: list[float]
    lessons: int  # how much had been learned when it was last renewed


def was_cut_off(job: Job) -> bool:
    """Return whether an ended job would have gone on: cancelled, out of time or of memory."""
    if job.state is JobState.COMPLETED:
        return False
    if job.state is JobState.CANCELLED:
        return True
    why = job.history[-1].why.lower() if job.history else ""
    if any(word in why for word in _SHORT_OF):
        return True
    return job.time_limit_s is not None and job.past.ran_s >= _AT_LIMIT * job.time_limit_s


def _ran_s(view: ClusterView) -> Floats:
    jobs = view.jobs
    goes_on_s = np.where(jobs.state == RUNNING, view.t_s - jobs.start_s, 0.0)
    ran_s: Floats = jobs.ran_s + np.maximum(np.nan_to_num(goes_on_s), 0.0)
    return ran_s


def _features(job: Job | JobRequest) -> JobFeatures:
    return JobFeatures(
        shape=job.shape,
        tenant=job.tenant,
        user=job.user,
        name=job.name,
        script=job.script,
        time_limit_s=job.time_limit_s,
    )
