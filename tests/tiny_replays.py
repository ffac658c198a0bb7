"""Small traces, and a scheduler of twenty lines that makes true replays of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from steward.errors import StewardError
from steward.model.machines import Machines, machines_of
from steward.model.replay import Replay, Segments
from steward.model.trace import Trace, trace_of
from steward.sim.lab.settings import LabSettings


def spans(*rows: tuple[int, float, float, float], speed: float = 1.0) -> Segments:
    """Return segments from rows of job, start, stop and GPUs."""
    table = np.array(sorted(rows, key=lambda row: row[1]), np.float64).reshape(-1, 4)
    many = len(table)
    return Segments(
        job=table[:, 0].astype(np.int64),
        start_s=table[:, 1],
        stop_s=table[:, 2],
        gpus=table[:, 3],
        node=np.full(many, -1),
        nodes=np.zeros(many, np.int64),
        speed=np.full(many, speed),
    )


def replay_of(trace: Trace, machines: Machines, segments: Segments, **changes: Any) -> Replay:
    """Return the replay in which exactly these spans ran; a job ends with its work."""
    jobs = len(trace)
    length_s = segments.stop_s - segments.start_s
    done_s = np.bincount(segments.job, length_s * segments.speed, minlength=jobs)
    end_s, start_s = np.full(jobs, np.nan), np.full(jobs, np.nan)
    for job, start, stop in zip(segments.job, segments.start_s, segments.stop_s, strict=True):
        start_s[job] = np.fmin(start_s[job], start)
        end_s[job] = np.fmax(end_s[job], stop)
    end_s[done_s < trace.duration_s - 1e-9] = np.nan
    many = np.bincount(segments.job, minlength=jobs)
    values: dict[str, Any] = {
        "policy": "fifo",
        "trace": trace,
        "machines": machines,
        "quota": equal_quota(trace, machines),
        "start_s": start_s,
        "end_s": end_s,
        "preemptions": np.maximum(0, many - 1),
        "lost_s": np.zeros(jobs),
        "segments": segments,
        "cpu_s": 0.01,
        "decisions": jobs,
    }
    return Replay(**{**values, **changes})


def equal_quota(trace: Trace, machines: Machines) -> Any:
    many = max(1, len(trace.tenants))
    return np.full(many, machines.total_gpus / many)


def first_come(trace: Trace, machines: Machines, *, order: Sequence[int] = ()) -> Replay:
    """Run every job in order of submission; the first that does not fit blocks the rest."""
    free = [(0.0, float(machines.total_gpus))]  # when GPUs become free, and how many
    rows, now_s = [], 0.0
    for job in order or range(len(trace)):
        now_s, asked = max(now_s, float(trace.submit_s[job])), float(trace.gpus[job])
        free.sort()
        while sum(many for t_s, many in free if t_s <= now_s) < asked - 1e-9:
            now_s = min(t_s for t_s, _ in free if t_s > now_s)
        ready = sum(many for t_s, many in free if t_s <= now_s)
        free = [each for each in free if each[0] > now_s]
        end_s = now_s + float(trace.duration_s[job])
        free += [(now_s, ready - asked), (end_s, asked)]
        rows.append((job, now_s, end_s, asked))
    return replay_of(trace, machines, spans(*rows))


def small_trace(jobs: int = 60, *, seed: int = 0, tenants: int = 3, **columns: Any) -> Trace:
    """Return a made-up trace that keeps eight GPUs busy and a queue waiting."""
    dice = np.random.default_rng(seed)
    return trace_of(
        "small",
        submit_s=np.sort(dice.uniform(0, jobs * 40.0, jobs)).round(),
        duration_s=np.ceil(dice.exponential(100.0, jobs)),
        gpus=dice.choice([1.0, 2.0, 4.0, 8.0], jobs, p=[0.5, 0.25, 0.15, 0.1]),
        tenant=[f"team{i}" for i in dice.integers(0, tenants, jobs)] if tenants else None,
        synthetic=True,
        **columns,
    )


def small_replay(jobs: int = 60, *, seed: int = 0, gpus: int = 8) -> Replay:
    return first_come(small_trace(jobs, seed=seed), machines_of(gpus))


def tiny_run(trace: Trace, machines: Machines, policy: str, settings: LabSettings) -> Replay:
    """Stand in for the lab's engines: `fifo`, and `short-first` within every ten minutes."""
    if policy not in ("fifo", "short-first"):
        raise StewardError(f"{policy} needs what this trace has not", hint="take another trace")
    length_s = trace.duration_s + settings.checkpoint_s
    longer = replace(trace, duration_s=length_s)
    within = np.floor(trace.submit_s / 600.0)
    by_length = np.lexsort((length_s, within)).tolist()
    made = first_come(longer, machines, order=by_length if policy == "short-first" else ())
    quota = settings.quota_of(trace, machines)
    lost_s = np.full(len(trace), settings.checkpoint_s)
    return replace(made, trace=trace, policy=policy, quota=quota, lost_s=lost_s)
