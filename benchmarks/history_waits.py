"""How long will a job wait? Forecasts by `start_forecast`, against the lab's own starts.

A trace is replayed under EASY backfill on a busy cluster. At every so-many-th submission the queue
as it is then, with draws from what `job-history` had learned by then, is played through; the wait
is compared when the job has started. Jobs that start at once, as was said, are counted apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from report import bar, finish, progress, quick
from steward.decide.scheduling.queue_wait import QueueAhead, start_forecast
from steward.learn.run_time_draws import draws_of_left, uniform_draws
from steward.learn.run_time_history import JobForecast, RunTimeHistory
from steward.learn.trace_history import learn_trace
from steward.learn.wait_calibration import WaitCalibration
from steward.model.machines import machines_of
from steward.model.trace import Trace
from steward.sim.lab.rigid.replay import time_limits
from steward.sim.lab.run import replay
from steward.sim.lab.settings import LabSettings
from steward.sim.traces import read_trace

Floats = NDArray[np.float64]
POLICY = "easy-backfill"
DRAWS = 64
ASKED = 250  # submissions of each trace, evenly
# Trace: GPUs, or 0: so many that nine tenths are busy. The first: what is shared by draws was
# chosen there.
TRACES = {"philly/103959": 0, "philly/ee9e8c": 0, "sia/newtrace/1": 0, "muri/trace2": 0}


def main() -> None:
    """Print how often limits held, and how far off the median was, for each trace."""
    found: dict[str, Any] = {}
    for name, gpus in list(TRACES.items())[: 2 if quick() else None]:
        found[name] = _trace(name, gpus, chosen=name == next(iter(TRACES)))
        progress(f"{name}: {found[name]}")
    bars = [
        bar(f"{name}: 90 % limits hold{what}", row["held"], op, limit)
        for name, row in found.items()
        for what, op, limit in (("", ">=", 0.85), (", and not more", "<=", 0.95))
    ]
    finish("history_waits", found, bars)


def _trace(name: str, gpus: int, *, chosen: bool) -> dict[str, Any]:
    trace = read_trace(name)
    gpus = gpus or _nine_tenths(trace)
    trace = trace.rows(trace.gpus <= gpus)
    ran = replay(trace, machines_of(gpus), POLICY, LabSettings(placement="count"))
    start_s, limit_s = ran.start_s, time_limits(trace)
    end_s = start_s + trace.duration_s
    history = RunTimeHistory(classes=3000, memory=300.0, quick=8.0)
    known: dict[int, JobForecast] = {}
    every = max(len(trace) // ASKED, 1)
    calibration = WaitCalibration()
    pending: list[tuple[float, int, Floats]] = []  # when it starts, which, and the draws
    rows, limits = list[int](), list[tuple[float, float, float, float, float]]()
    for row, made in learn_trace(history, trace, start_s=start_s):
        known[row] = made
        if row % every:
            continue
        now_s = float(trace.submit_s[row])
        for each in [each for each in pending if each[0] <= now_s]:
            calibration.learn(each[2], each[0] - float(trace.submit_s[each[1]]))
            pending.remove(each)
        runs = np.flatnonzero((start_s[:row] <= now_s) & (now_s < end_s[:row]))
        waiting = np.append(np.flatnonzero(start_s[:row] > now_s), row)
        for gone in [each for each in known if each < row and end_s[each] <= now_s]:
            del known[gone]
        ahead = _queue(history, known, runs, waiting, now_s - start_s, limit_s, gpus, trace, row)
        raw, draws_s = start_forecast(ahead)
        low, mid, high = calibration.limits(draws_s)
        rows.append(row)
        limits.append((low, mid, high, raw.low_s, raw.high_s))
        pending.append((float(start_s[row]), row, draws_s))
    return _scored(trace, start_s, np.array(rows), np.array(limits), gpus) | {"unseen": not chosen}


def _queue(  # noqa: PLR0913, PLR0917 - one moment of a replay
    history: RunTimeHistory,
    known: dict[int, JobForecast],
    runs: Any,  # noqa: ANN401 - rows
    waiting: Any,  # noqa: ANN401
    ran_s: Floats,
    limit_s: Floats,
    gpus: int,
    trace: Trace,
    seed: int,
) -> QueueAhead:
    jobs = np.append(runs, waiting)
    ran = np.where(np.arange(len(jobs)) < len(runs), ran_s[jobs], 0.0)
    left = np.array([known[row].left for row in jobs.tolist()])
    uniform = uniform_draws(DRAWS, len(jobs), seed=seed)
    draws_s = np.minimum(
        draws_of_left(left, ran, history.curve, uniform), np.maximum(limit_s[jobs] - ran, 1.0)
    )
    count = len(runs)
    return QueueAhead(
        capacity=gpus,
        held=trace.gpus[runs].astype(np.int64),
        left_s=draws_s[:, :count],
        running_limit_s=np.maximum(limit_s[runs] - ran[:count], 1.0),
        asked=trace.gpus[waiting].astype(np.int64),
        run_s=draws_s[:, count:],
        limit_s=limit_s[waiting],
    )


def _scored(trace: Trace, start_s: Floats, rows: Any, limits: Floats, gpus: int) -> dict[str, Any]:  # noqa: ANN401
    wait_s = start_s[rows] - trace.submit_s[rows]
    low, mid, high, raw_low, raw_high = limits.T
    at_once = (wait_s <= 1.0) & (raw_high <= 1.0)
    judged = ~at_once
    inside = (wait_s >= low - 1.0) & (wait_s <= high + 1.0)
    raw = (wait_s >= raw_low - 1.0) & (wait_s <= raw_high + 1.0)
    off = np.abs(wait_s - mid)[judged]
    return {
        "gpus": gpus,
        "asked": len(rows),
        "start at once, as was said": int(at_once.sum()),
        "judged": int(judged.sum()),
        "held": round(float(inside[judged].mean()), 4),
        "held, before calibration": round(float(raw[judged].mean()), 4),
        "waited longer": round(float((wait_s > high + 1.0)[judged].mean()), 4),
        "median_absolute_error_s": round(float(np.median(off)), 1),
        "mean_absolute_error_s": round(float(off.mean()), 1),
        "mean_wait_s": round(float(wait_s[judged].mean()), 1),
        "mean_absolute_error_of_the_mean_wait_s": round(
            float(np.abs(wait_s[judged] - _running_mean(wait_s)[judged]).mean()), 1
        ),
    }


def _running_mean(wait_s: Floats) -> Floats:
    """Return the mean of the last 50 waits before each, the rival that needs no queue."""
    sums = np.append(0.0, np.cumsum(wait_s))
    at = np.arange(len(wait_s))
    first = np.maximum(at - 50, 0)
    found: Floats = (sums[at] - sums[first]) / np.maximum(at - first, 1)
    return found


def _nine_tenths(trace: Trace) -> int:
    busy = trace.gpu_seconds / max(float(np.ptp(trace.submit_s)), 1.0)
    return max(8 * int(np.ceil(busy / 0.9 / 8)), 8)


if __name__ == "__main__":
    main()
