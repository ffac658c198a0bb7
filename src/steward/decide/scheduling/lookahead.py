"""Lets time pass in a supposed moment until a job starts: others end, the policy is asked again."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from steward.decide.scheduling.supposed import SupposedMoment
from steward.model.forecast import RUN_LEFT_S, About
from steward.model.identity import JobId
from steward.model.job import Job, JobState
from steward.model.view import ClusterView
from steward.ports import Policy

__all__ = ["CASES", "Case", "Replayed", "look_ahead"]

Case = Literal["low", "mid", "high"]
CASES: tuple[Case, ...] = ("low", "mid", "high")
MOST_STEPS = 150  # ends of other jobs that are looked ahead
GUESS_S = 3600.0  # for jobs whose end nobody knows: it gives an order, and never a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The time that a replay came to, and who started before. `beyond`: it was too long."""

    t_s: float
    before: tuple[JobId, ...]
    unknown: tuple[JobId, ...]  # jobs without a limit, of which nothing is known either
    starts: bool
    beyond: bool

    @property
    def known(self) -> bool:
        """Whether `t_s` is when the job starts."""
        return self.starts and not self.unknown


def look_ahead(
    policy: Policy[ClusterView],
    view: ClusterView,
    job: JobId,
    *,
    case: Case,
    stops: bool,
    most_steps: int | None = None,
) -> Replayed:
    """Replay what comes, with all run times low, likely or high, until a job starts."""
    ends = _Ends(view=view, case=case, supposed=SupposedMoment(view))
    supposed, before = ends.supposed, list[JobId]()
    for each in tuple(supposed.jobs.values()):
        if each.state is JobState.RUNNING:
            ends.expect(each)
    steps, most = 0, MOST_STEPS if most_steps is None else most_steps
    while steps < most:
        started = supposed.carry_out(supposed.decided(policy, stops=stops))
        before += started
        if job in started:
            break
        for id_ in started:
            ends.expect(supposed.jobs[id_])
        if not ends.come():
            break
        steps += 1
    starts = job in before
    return Replayed(
        t_s=supposed.t_s,
        before=tuple(before[: before.index(job)] if starts else before),
        unknown=tuple(ends.unknown),
        starts=starts,
        beyond=not starts and steps == most,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ends:
    """When the jobs that run will end."""

    view: ClusterView
    case: Case
    supposed: SupposedMoment
    unknown: list[JobId] = field(default_factory=list)
    _heap: list[tuple[float, JobId, float]] = field(default_factory=list)  # end, job, its start

    def expect(self, job: Job) -> None:
        """Note when a job that runs now will end. Nobody knows that of a foreign process."""
        left_s = self._left_s(job)
        if left_s is None:
            self.unknown.append(job.id)
        end_s = self.supposed.t_s + (GUESS_S if left_s is None else left_s)
        heapq.heappush(self._heap, (end_s, job.id, job.start_s or 0.0))

    def come(self) -> bool:
        """Let the next job end that still runs as it did; False if there is none."""
        while self._heap:
            t_s, id_, since_s = heapq.heappop(self._heap)
            job = self.supposed.jobs.get(id_)
            if job is not None and job.gpus and (job.start_s or 0.0) == since_s:
                self.supposed.t_s = t_s
                self.supposed.end(id_)
                return True
        return False

    def _left_s(self, job: Job) -> float | None:
        """Return for how much longer a job runs: as jobs like it did, and at most to its limit.

        The limit alone says that it may end at any time until then.
        """
        real = self.view.details[job.id]
        ran_s = self.view.t_s - (real.start_s or 0.0) if real.state is JobState.RUNNING else 0.0
        limit_s = np.inf if job.time_limit_s is None else max(job.time_limit_s - ran_s, 0.0)
        column = self.view.forecast(About.JOBS, RUN_LEFT_S)
        row = int(np.flatnonzero(self.view.jobs.ids == job.id)[0])
        known_s = np.nan if column is None else float(getattr(column, self.case)[row])
        if np.isnan(known_s) and self.case == "low" and limit_s < np.inf:
            return 0.0
        left_s = float(np.fmin(known_s, limit_s))
        return left_s if left_s < np.inf else None
