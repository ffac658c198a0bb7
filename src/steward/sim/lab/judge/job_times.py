"""How each job of a replay fared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.model.replay import Replay
from steward.sim.lab.judge.timeline_events import horizon

__all__ = ["JobTimes", "added_up", "job_times", "ratio"]

Floats = NDArray[np.float64]

SHORTEST_S = 10.0  # a slowdown is not counted against less: tiny jobs would drown the others


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobTimes:
    """Per job of the trace; NaN where it did not finish."""

    jct_s: Floats
    wait_s: Floats
    slowdown: Floats
    rho: Floats
    run_s: Floats  # also of unfinished jobs
    gpu_s: Floats  # held; also of unfinished jobs
    work_gpu_s: Floats  # done, at the size asked for; also of unfinished jobs


def job_times(replay: Replay, *, capacity_gpus: float) -> JobTimes:
    """Return how each job fared; `capacity_gpus` is the mean over the replay."""
    trace, segments, jobs = replay.trace, replay.segments, len(replay.trace)
    length_s = segments.stop_s - segments.start_s
    run_s = added_up(segments.job, length_s, jobs)
    done_s = added_up(segments.job, length_s * segments.speed, jobs)
    jct_s = replay.end_s - trace.submit_s
    partly_s = np.clip(done_s - replay.lost_s, 0.0, trace.duration_s)
    return JobTimes(
        jct_s=jct_s,
        wait_s=np.maximum(0.0, jct_s - run_s),  # sums of many spans are not exact
        slowdown=np.maximum(1.0, jct_s / np.maximum(SHORTEST_S, trace.duration_s)),
        rho=_rho(replay, jct_s, capacity_gpus),
        run_s=run_s,
        gpu_s=added_up(segments.job, length_s * segments.gpus, jobs),
        work_gpu_s=np.where(np.isnan(jct_s), partly_s, trace.duration_s) * trace.gpus,
    )


def added_up(row: NDArray[np.int64], values: Floats, rows: int) -> Floats:
    """Add values up by the row that they belong to."""
    return np.bincount(row, values, minlength=rows).astype(np.float64)


def ratio(above: Floats, below: Floats) -> Floats:
    """Divide; NaN where there is nothing to divide by."""
    found = np.full(len(above), np.nan)
    np.divide(above, below, out=found, where=below > 0)
    return found


def _rho(replay: Replay, jct_s: Floats, capacity_gpus: float) -> Floats:
    """Return finish-time fairness: the time a job took over the time alone on its equal part.

    The equal part is capacity / N, where N is the mean number of jobs between its submission and
    its end. A gang larger than its part gets its GPUs for that part of the time.
    """
    trace = replay.trace
    _, to_s = horizon(replay)
    ends = np.where(np.isnan(replay.end_s), to_s, replay.end_s)
    job_s = _jobs_until(trace.submit_s, ends, ends) - _jobs_until(
        trace.submit_s, ends, trace.submit_s
    )
    contending = ratio(job_s, ends - trace.submit_s)
    stretch = np.maximum(1.0, trace.gpus * contending / max(capacity_gpus, 1e-9))
    return ratio(jct_s, trace.duration_s * stretch)


def _jobs_until(submit_s: Floats, ends_s: Floats, t_s: Floats) -> Floats:
    """Return the integral of the number of jobs that are there, from the start to each time."""
    total = np.zeros(len(t_s))
    for since_s, sign in ((np.sort(submit_s), 1.0), (np.sort(ends_s), -1.0)):
        many = np.searchsorted(since_s, t_s, side="right")
        before = np.concatenate([[0.0], np.cumsum(since_s)])
        total += sign * (many * t_s - before[many])
    return total
