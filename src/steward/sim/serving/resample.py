"""Other days of the same traffic: blocks of a trace in another order, some of them twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from steward.model.serving.requests import RequestTrace

__all__ = ["BLOCKS", "grown", "of_model", "picked", "resampled"]

BLOCKS = 12  # of a trace, where their length is not given
_DRAWS = 100  # until a day is not empty, as one of two requests often is
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def resampled(trace: RequestTrace, *, seed: int, block_s: float | None = None) -> RequestTrace:
    """Return as long a trace of blocks drawn from this one with replacement (circular bootstrap).

    Bursts within a block stay as they were; slower changes are lost. Two copies of one request
    share no prompt with each other, so that caches get no help that the trace does not give.
    """
    begin_s, span_s = _span(trace)
    if span_s <= 0:
        return trace
    blocks = BLOCKS if block_s is None else max(1, round(span_s / block_s))
    draw = np.random.default_rng((seed, 7))
    since_s = trace.arrival_s - begin_s
    for _ in range(_DRAWS):  # a few requests may fall into none of the blocks: another day then
        row, arrival_s = _drawn(since_s, span_s, draw.uniform(0.0, span_s, blocks))
        if len(row):
            break
    else:
        return trace
    order = np.argsort(arrival_s, kind="stable")
    return picked(trace, row[order], arrival_s[order])


def _drawn(since_s: Floats, span_s: float, starts_s: Floats) -> tuple[Ints, Floats]:
    """Return the rows of the blocks that start there, and when they arrive in the new day."""
    width_s = span_s / len(starts_s)
    rows, times = [], []
    for place, start_s in enumerate(starts_s):
        offset_s = (since_s - start_s) % span_s
        chosen = np.flatnonzero(offset_s < width_s)
        rows.append(chosen)
        times.append(place * width_s + offset_s[chosen])
    return np.concatenate(rows), np.concatenate(times)


def grown(trace: RequestTrace, factor: float) -> RequestTrace:
    """Return the same requests, arriving `factor` times as fast."""
    if factor == 1.0:
        return trace
    begin_s, _ = _span(trace)
    arrival_s = begin_s + (trace.arrival_s - begin_s) / factor
    return replace(trace, arrival_s=arrival_s, synthetic=True)


def of_model(trace: RequestTrace, model: str) -> RequestTrace:
    """Return the requests that one model can serve, without the names of models.

    Those are its own, and those that name none; all of them where the trace never names it.
    """
    rows = np.arange(len(trace))
    if model in trace.models:
        code = trace.models.index(model)
        rows = np.flatnonzero((trace.model == code) | (trace.model < 0))
    chosen = picked(trace, rows, trace.arrival_s[rows])
    return replace(
        chosen, models=(), model=np.full(len(chosen), -1, np.int64), synthetic=trace.synthetic
    )


def _span(trace: RequestTrace) -> tuple[float, float]:
    begin_s = float(trace.arrival_s[0])
    return begin_s, float(trace.arrival_s[-1]) - begin_s


def picked(trace: RequestTrace, rows: Ints, arrival_s: Floats) -> RequestTrace:
    """Return these rows, some perhaps several times, at these times."""
    length = np.diff(trace.prefix_start)[rows]
    start = np.concatenate(([0], np.cumsum(length))).astype(np.int64)
    source = np.repeat(trace.prefix_start[rows] - start[:-1], length) + np.arange(start[-1])
    ids = trace.prefix_ids[source]
    apart = np.repeat(_copies(rows), length) * (int(trace.prefix_ids.max(initial=0)) + 1)
    return replace(
        trace,
        synthetic=True,
        arrival_s=arrival_s,
        prompt_tokens=trace.prompt_tokens[rows],
        output_tokens=trace.output_tokens[rows],
        deadline_class=trace.deadline_class[rows],
        tenant=trace.tenant[rows],
        model=trace.model[rows],
        prefix_start=start,
        prefix_ids=np.unique(ids + apart, return_inverse=True)[1].astype(np.int64),
    )


def _copies(rows: Ints) -> Ints:
    """Return for each place how often its row came before."""
    order = np.argsort(rows, kind="stable")
    ranked = rows[order]
    copies = np.empty(len(rows), np.int64)
    copies[order] = np.arange(len(rows)) - np.searchsorted(ranked, ranked)
    return copies
