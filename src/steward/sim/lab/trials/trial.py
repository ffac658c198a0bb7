"""One policy on one variant of a trace, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.machines import Machines
from steward.model.replay import Replay
from steward.model.trace import Trace
from steward.sim.lab.intervals import JobSample, sample_of
from steward.sim.lab.judge.job_times import JobTimes
from steward.sim.lab.judge.judgement import judged_jobs
from steward.sim.lab.judge.measures import Measures
from steward.sim.lab.settings import LabSettings
from steward.sim.lab.trials.variants import resized, runnable, window, with_load

__all__ = ["Failed", "Gantt", "Judged", "ReplayCharts", "Run", "StudyInput", "Trial", "run_trial"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Run = Callable[[Trace, Machines, str, LabSettings], Replay]

CURVE_POINTS = 201
DAY_S = 86400.0
DRAWN_SPANS = 1500  # more cannot be seen, and make a page heavy


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StudyInput:
    """What all trials of a study start from."""

    trace: Trace
    machines: Machines
    run: Run | None = None  # None: the lab's own `replay`


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A policy and how its world differs from the base."""

    policy: str
    settings: LabSettings
    load: float = 1.0
    window: tuple[int, int] = (0, 1)  # which of how many
    gpus: int = 0  # 0: those of the base

    def plain(self) -> Trial:
        """Return the trial in a form that can travel to another process."""
        settings = self.settings
        quota = None if settings.quota is None else dict(settings.quota)
        return replace(
            self,
            settings=replace(
                settings,
                quota=quota,
                type_speed=dict(settings.type_speed),
                policy_options=dict(settings.policy_options),
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gantt:
    """Who ran on how many GPUs in one window; small spans are left out where there are many."""

    from_s: float
    to_s: float
    start_s: Floats
    stop_s: Floats
    gpus: Floats
    job: Ints  # row of the trace
    tenant: Ints
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayCharts:
    """What a page draws of a trial: distributions at equal steps of the share of jobs."""

    jct_s: Floats
    wait_s: Floats
    gantt: Gantt


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """What came out of a trial."""

    policy: str
    measures: Measures
    sample: JobSample
    picture: ReplayCharts
    notes: tuple[str, ...]
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A trial that could not be run, in words."""

    policy: str
    problem: str
    hint: str


def run_trial(base: StudyInput, trial: Trial) -> Judged | Failed:
    """Make the variant, replay it and judge what came out. Deterministic but for `cpu_s`."""
    try:
        return _judged(base, trial)
    except StewardError as fault:
        return Failed(policy=trial.policy, problem=str(fault), hint=fault.hint)


def _judged(base: StudyInput, trial: Trial) -> Judged:
    machines = resized(base.machines, trial.gpus) if trial.gpus else base.machines
    trace, _ = runnable(_variant(base.trace, trial), machines)
    run = base.run or _own_run()
    replay = run(trace, machines, trial.policy, trial.settings)
    measures, times = judged_jobs(replay)
    return Judged(
        policy=trial.policy,
        measures=measures,
        sample=sample_of(replay, times, measures),
        picture=_picture(replay, times),
        notes=tuple(replay.notes),
        gpus=machines.total_gpus,
    )


def _own_run() -> Run:
    from steward.sim.lab.run import replay  # noqa: PLC0415 - a study may bring its own

    return replay


def _variant(trace: Trace, trial: Trial) -> Trace:
    which, many = trial.window
    part = window(trace, which, many) if many > 1 else trace
    return with_load(part, trial.load)


def _picture(replay: Replay, times: JobTimes) -> ReplayCharts:
    shares = np.linspace(0, 1, CURVE_POINTS)
    jct_s, wait_s = (each[~np.isnan(each)] for each in (times.jct_s, times.wait_s))
    return ReplayCharts(
        jct_s=np.quantile(jct_s, shares) if len(jct_s) else np.empty(0),
        wait_s=np.quantile(wait_s, shares) if len(wait_s) else np.empty(0),
        gantt=_gantt(replay),
    )


def _gantt(replay: Replay) -> Gantt:
    from_s, to_s = busiest_day(replay.trace, replay.machines.total_gpus)
    segments = replay.segments
    start_s = np.maximum(segments.start_s, from_s)
    stop_s = np.minimum(segments.stop_s, to_s)
    inside = np.flatnonzero((stop_s > start_s) & (segments.gpus > 0))
    area = ((stop_s - start_s) * segments.gpus)[inside]
    largest = inside[np.argsort(-area, kind="stable")[:DRAWN_SPANS]]
    rows = largest[np.lexsort((largest, start_s[largest]))]
    return Gantt(
        from_s=from_s,
        to_s=to_s,
        start_s=start_s[rows],
        stop_s=stop_s[rows],
        gpus=segments.gpus[rows].astype(np.float64),
        job=segments.job[rows],
        tenant=replay.trace.tenant[segments.job[rows]],
        left_out=len(inside) - len(rows),
    )


def busiest_day(trace: Trace, gpus: int) -> tuple[float, float]:
    """Return the day with most work left over, however it is ordered: the same for all policies.

    Where no day leaves work over, it is the day in which most was submitted.
    """
    if not len(trace):
        return 0.0, 1.0
    first = float(trace.submit_s[0])
    day = ((trace.submit_s - first) // DAY_S).astype(np.int64)
    work_gpu_s = np.bincount(day, trace.gpus * trace.duration_s)
    surplus = np.cumsum(work_gpu_s - gpus * DAY_S)
    left_over = surplus - np.minimum(0.0, np.minimum.accumulate(surplus))
    which = left_over if left_over.max() > 0 else work_gpu_s
    from_s = first + float(np.argmax(which)) * DAY_S
    if len(work_gpu_s) > 1:
        return from_s, from_s + DAY_S
    ends = trace.submit_s + trace.duration_s
    return from_s, min(from_s + DAY_S, max(float(ends.max()), from_s + 1.0))
