"""Arrivals in bursts beyond capacity, so that queues form and drain, with a trace's own requests.

The requests, their order and how their arrivals clump are the trace's; how fast they come is not:
bursts of 1.5 to 3 times what the instances can serve, each followed by half of that until what
waits is gone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from steward.decide.serving.fcfs import Fcfs
from steward.errors import StewardError
from steward.model.serving.instance_type import InstanceType
from steward.model.serving.requests import RequestTrace, requests_of
from steward.sim.serving.simulate import Fleet, simulate

__all__ = ["in_bursts", "repeated", "requests_per_s"]

Floats = NDArray[np.float64]
_PROBED = 3000  # requests that capacity is measured with
_BURST = (1000.0, 4000.0)  # requests of a burst, for each instance
_OVERLOAD = (1.5, 3.0)
_REST = 0.5  # of capacity, after a burst
_SLACK = 1.1  # a rest is so much longer than draining takes


def requests_per_s(trace: RequestTrace, kind: InstanceType) -> float:
    """Return how many of these requests one instance gets through with a full batch."""
    head = trace.head(_PROBED)
    head = replace(head, arrival_s=np.zeros(len(head)))
    run = simulate(head, Fleet(types=(kind,), instances=(0,)), Fcfs())
    ends = np.sort(run.finish_s[np.isfinite(run.finish_s)])
    if not len(ends):
        raise StewardError(
            f"no request fits into a KV cache of {kind.kv_tokens} tokens",
            where=trace.name,
            hint="give an instance more with --kv-tokens",
        )
    first, last = int(0.25 * len(ends)), max(int(0.7 * len(ends)), 1)
    took_s = float(ends[min(last, len(ends) - 1)] - ends[first]) if last > first else 0.0
    return (last - first) / took_s if took_s > 0 else len(ends) / max(float(ends[-1]), 1e-9)


def repeated(trace: RequestTrace, count: int) -> RequestTrace:
    """Return `count` requests: the first ones, or all of them again and again.

    Prompts of one round share no prefix with those of another. Names of models become tenants
    where there are none: all requests go to one model.
    """
    rows = np.arange(count) % len(trace)
    rounds = np.arange(count) // len(trace)
    gaps = np.diff(trace.arrival_s, prepend=trace.arrival_s[:1])
    gaps[0] = gaps.mean()
    blocks = int(trace.prefix_ids.max(initial=-1)) + 1
    starts = trace.prefix_start
    prefix = [
        trace.prefix_ids[starts[row] : starts[row + 1]] + blocks * turn
        for row, turn in zip(rows.tolist(), rounds.tolist(), strict=True)
    ]
    names, codes = (trace.tenants, trace.tenant) if trace.tenants else (trace.models, trace.model)
    return requests_of(
        trace.name,
        arrival_s=np.cumsum(gaps[rows]),
        prompt_tokens=trace.prompt_tokens[rows],
        output_tokens=trace.output_tokens[rows],
        classes=trace.classes,
        deadline_class=trace.deadline_class[rows],
        tenant=[names[code] if code >= 0 else "" for code in codes[rows]],
        prefix=prefix if blocks else None,
        prefix_block_tokens=trace.prefix_block_tokens if blocks else 0,
        origin=trace.origin,
        synthetic=True,
        faults=trace.faults,
    )


def in_bursts(trace: RequestTrace, per_s: float, *, instances: int, seed: int) -> RequestTrace:
    """Return the requests arriving in bursts and rests, `per_s` being what one instance serves.

    Bursts are drawn by `seed`; within them gaps are as uneven as the trace's.
    """
    draw = np.random.default_rng((seed, 2))
    rate = np.zeros(len(trace))
    at = 0
    while at < len(trace):
        overload = float(draw.uniform(*_OVERLOAD))
        size = int(np.exp(draw.uniform(*np.log(_BURST)))) * instances
        rest = int(_SLACK * size * (1.0 - 1.0 / overload)) + 1
        rate[at : at + size] = overload
        rate[at + size : at + size + rest] = _REST
        at += size + rest
    gaps = np.diff(trace.arrival_s, prepend=0.0)
    mean = float(gaps.mean())
    gaps = gaps / mean if mean > 0 else np.ones(len(gaps))
    return replace(trace, arrival_s=np.cumsum(gaps / (rate * per_s * instances)))
