"""Feeds a recorded workload to a history of run times, in the order in which things happened."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

import numpy as np
from numpy.typing import NDArray

from steward.learn.job_contexts import JobFeatures
from steward.learn.run_time_history import JobForecast, RunTimeHistory
from steward.learn.survival import EDGES_S, LEVELS
from steward.model.job import JobShape
from steward.model.trace import Trace

__all__ = ["learn_trace", "started_s", "trace_features"]

Floats = NDArray[np.float64]
_COMES, _RUNS, _ENDS = 2, 1, 0  # of what happens at one instant, ends come first
_EVERY = 3  # levels: how often it is learned that a job still runs
_FIRST = 12
_WHOLE = 2**30  # a part of a GPU counts as so many bytes of its memory


def learn_trace(
    history: RunTimeHistory, trace: Trace, *, start_s: Floats | None = None
) -> Iterator[tuple[int, JobForecast]]:
    """Learn from a trace, and yield for each row what was expected when the job came.

    A forecast rests on what had happened by then, and nothing else.
    """
    began_s = started_s(trace) if start_s is None else start_s
    work = trace_features(trace)
    duration_s, cut_off = trace.duration_s, trace.cut_off > 0
    known: dict[int, JobForecast] = {}
    for what, row, ran_s in _events(trace, began_s):
        if what == _COMES:
            known[row] = history.forecast(work[row])
            yield row, known[row]
        elif what == _RUNS:
            history.runs(known[row], ran_s)
        else:
            made = known.pop(row)
            history.ends(made, work[row], float(duration_s[row]), cut_off=bool(cut_off[row]))


def started_s(trace: Trace) -> Floats:
    """Return when jobs started; where that is not recorded, when they were submitted."""
    return np.where(np.isnan(trace.start_s), trace.submit_s, trace.start_s)


def _events(trace: Trace, start_s: Floats) -> Iterator[tuple[int, int, float]]:
    """Yield what happens to which row, and how long it has run, by time."""
    n, duration_s = len(trace), trace.duration_s
    rows, everyone = [np.arange(n), np.arange(n)], np.zeros(n)
    times_s = [trace.submit_s, np.maximum(start_s + duration_s, trace.submit_s)]
    kinds, ran_s = [np.full(n, _COMES), np.full(n, _ENDS)], [everyone, duration_s]
    for level in range(_FIRST, LEVELS, _EVERY):
        edge_s = float(EDGES_S[level])
        there = np.flatnonzero(duration_s > edge_s)
        rows.append(there)
        times_s.append(start_s[there] + edge_s)
        kinds.append(np.full(len(there), _RUNS))
        ran_s.append(np.full(len(there), edge_s))
    row, kind, ran = np.concatenate(rows), np.concatenate(kinds), np.concatenate(ran_s)
    # a job that ends at the instant in which it comes, comes first
    late = (kind != _COMES) & (np.concatenate(times_s) <= trace.submit_s[row])
    order = np.lexsort((np.where(late, kind + 3, kind), np.concatenate(times_s)))
    yield from zip(kind[order].tolist(), row[order].tolist(), ran[order].tolist(), strict=True)


def trace_features(trace: Trace) -> list[JobFeatures]:
    """Return what was known of each job of a trace when it was submitted."""
    names = [""] + [f"{name}" for name in trace.models]
    tenants, users, types = ("", *trace.tenants), ("", *trace.users), ("", *trace.gpu_types)
    batch = ["" if np.isnan(each) else f" batch {each:g}" for each in trace.batch.tolist()]
    limits = [None if np.isnan(each) else each for each in trace.time_limit_s.tolist()]
    cpus, memory = np.nan_to_num(trace.cpus).tolist(), np.nan_to_num(trace.memory_bytes).tolist()
    shapes: dict[tuple[float, float, float, int], JobShape] = {}
    found = []
    for row, key in enumerate(
        zip(trace.gpus.tolist(), cpus, memory, trace.gpu_type.tolist(), strict=True)
    ):
        shape = shapes.get(key) or shapes.setdefault(key, _shape(*key, types))
        found.append(
            JobFeatures(
                shape=shape,
                tenant=tenants[trace.tenant[row] + 1],
                user=users[trace.user[row] + 1],
                name=f"{names[trace.model[row] + 1]}{batch[row]}",
                time_limit_s=limits[row],
            )
        )
    return found


def _shape(
    gpus: float, cpus: float, memory: float, gpu_type: int, types: tuple[str, ...]
) -> JobShape:
    part = int(gpus * _WHOLE) if gpus % 1 else 0
    models = tuple(types[gpu_type + 1].split("|")) if gpu_type >= 0 else ()
    return JobShape(
        gpus=ceil(gpus),
        cpus=ceil(cpus),
        memory_bytes=int(memory),
        gpu_memory_bytes=part,
        gpu_models=models,
    )
