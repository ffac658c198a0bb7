"""How long will a job wait? Forecasts by `start_forecast`, against the lab's own starts.

A trace is replayed under EASY backfill on clusters of which three quarters and nine tenths are
busy. At every so-many-th submission the queue as it is then, with draws from what `job-history` had
learned by then, is played through, and `WaitCalibration` makes limits of it, from waits that were
over by then and from jobs that still waited. Jobs that start at once, as was said, are counted
apart. Constants of the calibration were chosen on the traces in `CHOSEN`; only the others are
judged.
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
ASKED = 500  # submissions of each trace, evenly
LOADS = (0.75, 0.9)  # GPUs are so many that this share of them is asked for
CHOSEN = ("philly/103959", "philly/ee9e8c", "muri/trace1", "muri/trace2", "sia/newtrace/1")
UNSEEN = ("philly/0e4a51", "philly/ed69ec", "philly/7f04ca", "sia/newtrace/2")
LEAST, MOST = 0.88, 0.92


def main() -> None:
    """Print how often limits held, and how far off the median was, for each trace and load."""
    found: dict[str, Any] = {}
    names = (CHOSEN[0], UNSEEN[0]) if quick() else (*CHOSEN, *UNSEEN)
    for name, load in ((name, load) for name in names for load in LOADS):
        row = _trace(name, load)
        found[f"{name}, load {load}"] = row
        progress(f"{name}, load {load}: {row}")
    bars = [
        bar(f"{name}: 90 % limits hold{what}", row["held"], op, limit)
        for name, row in found.items()
        if row["unseen"]
        for what, op, limit in (("", ">=", LEAST), (", and not more", "<=", MOST))
    ]
    finish("history_waits", found, bars)


def _trace(name: str, load: float) -> dict[str, Any]:
    trace = read_trace(name)
    gpus = _gpus(trace, load)
    trace = trace.rows(trace.gpus <= gpus)
    ran = replay(trace, machines_of(gpus), POLICY, LabSettings(placement="count"))
    start_s, limit_s = ran.start_s, time_limits(trace)
    end_s = start_s + trace.duration_s
    history = RunTimeHistory(classes=3000, memory=300.0, quick=8.0)
    known: dict[int, JobForecast] = {}
    every = max(len(trace) // ASKED, 1)
    calibration = WaitCalibration()
    pending: list[tuple[float, int]] = []  # when it starts, and which
    rows, limits = list[int](), list[tuple[float, float, float, float, float, float]]()
    for row, made in learn_trace(history, trace, start_s=start_s):
        known[row] = made
        if row % every:
            continue
        now_s = float(trace.submit_s[row])
        for began_s, each in sorted(each for each in pending if each[0] <= now_s):
            calibration.started(each, began_s)
            pending.remove((began_s, each))
        runs = np.flatnonzero((start_s[:row] <= now_s) & (now_s < end_s[:row]))
        waiting = np.append(np.flatnonzero(start_s[:row] > now_s), row)
        for gone in [each for each in known if each < row and end_s[each] <= now_s]:
            del known[gone]
        ahead = _queue(history, known, runs, waiting, now_s - start_s, limit_s, gpus, trace, row)
        raw, draws_s = start_forecast(ahead)
        rows.append(row)
        made_s = calibration.limits(row, now_s, draws_s)
        limits.append((*made_s, raw.low_s, raw.mid_s, raw.high_s))
        pending.append((float(start_s[row]), row))
    scored = _scored(trace, start_s, np.array(rows), np.array(limits), gpus)
    return scored | {"unseen": name in UNSEEN}


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
    low, mid, high, raw_low, raw_mid, raw_high = limits.T
    at_once = (wait_s <= 1.0) & (raw_high <= 1.0)
    judged = ~at_once
    inside = (wait_s >= low - 1.0) & (wait_s <= high + 1.0)
    raw = (wait_s >= raw_low - 1.0) & (wait_s <= raw_high + 1.0)
    off, raw_off = (np.abs(wait_s - each)[judged] for each in (mid, raw_mid))
    waited, logs = wait_s[judged] + 60.0, np.log(np.stack((low, high))[:, judged] + 60.0)
    width = float(np.exp(np.median(logs[1] - logs[0])))
    return {
        "gpus": gpus,
        "asked": len(rows),
        "start at once, as was said": int(at_once.sum()),
        "judged": int(judged.sum()),
        "held": round(float(inside[judged].mean()), 4),
        "held, before calibration": round(float(raw[judged].mean()), 4),
        "waited longer": round(float((wait_s > high + 1.0)[judged].mean()), 4),
        "limits, highest over lowest, median": round(width, 2),
        "median_error_factor": _factor(mid[judged] + 60.0, waited),
        "median_error_factor, before calibration": _factor(raw_mid[judged] + 60.0, waited),
        "median_absolute_error_s": round(float(np.median(off)), 1),
        "mean_absolute_error_s": round(float(off.mean()), 1),
        "mean_absolute_error_s, before calibration": round(float(raw_off.mean()), 1),
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


def _factor(found_s: Floats, true_s: Floats) -> float:
    """Return the factor that forecasts are off by in the median."""
    return round(float(np.exp(np.median(np.abs(np.log(found_s / true_s))))), 3)


def _gpus(trace: Trace, load: float) -> int:
    busy = trace.gpu_seconds / max(float(np.ptp(trace.submit_s)), 1.0)
    return max(8 * int(np.ceil(busy / load / 8)), 8)


if __name__ == "__main__":
    main()
