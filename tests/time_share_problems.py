"""The smallest time-share problem; a test states only what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from hypothesis import strategies as st

from steward.decide.scheduling.time_shares.problem import (
    TimeShareProblem,
    TimeShares,
    fresh_notes,
)


def problem_of(
    gpus: Sequence[float],
    *,
    capacity: Sequence[float] = (4.0,),
    rate: Sequence[Sequence[float]] | None = None,
    together: float | None = None,
    **changes: Any,
) -> TimeShareProblem:
    """Return jobs that have just come; with `together`, pairs that run at that part of speed."""
    jobs, types = len(gpus), len(capacity)
    rates = np.ones((jobs, types)) if rate is None else np.array(rate, np.float64)
    couples = [] if together is None else list(combinations(range(jobs), 2))
    pairs = np.array([c for c in couples if gpus[c[0]] == gpus[c[1]]], np.int64).reshape(-1, 2)
    found = TimeShareProblem(
        t_s=0.0,
        round_s=360.0,
        job=np.arange(jobs),
        gpus=np.array(gpus, np.float64),
        weight=np.ones(jobs),
        steps_left=np.full(jobs, 3600.0),
        steps_total=np.full(jobs, 3600.0),
        elapsed_s=np.zeros(jobs),
        deadline_left_s=np.full(jobs, np.nan),
        rate=rates,
        reference_type=0,
        pairs=pairs,
        pair_rate=(together or 0.0) * np.stack([rates[pairs[:, 0]], rates[pairs[:, 1]]], axis=2),
        capacity=np.array(capacity, np.float64),
        price_per_gpu_h=np.ones(types),
        draws=np.linspace(0.0, 0.99, 2 * jobs + 2),
        memory=fresh_notes(jobs),
    )
    columns = {
        name: value if not isinstance(value, list) else np.array(value, np.float64)
        for name, value in changes.items()
    }
    return replace(found, **columns)


@st.composite
def problems(draw: st.DrawFn, *, paired: bool = True) -> TimeShareProblem:
    """Draw jobs of several sizes with different rates on up to three types."""
    types = draw(st.integers(1, 3))
    jobs = draw(st.integers(1, 8))
    size, speed = st.sampled_from([1.0, 2.0, 4.0]), st.sampled_from([0.25, 1.0, 2.0, 3.5])
    rate = draw(
        st.lists(st.lists(speed, min_size=types, max_size=types), min_size=jobs, max_size=jobs)
    )
    found = problem_of(
        draw(st.lists(size, min_size=jobs, max_size=jobs)),
        capacity=draw(st.lists(st.sampled_from([4.0, 6.0, 16.0]), min_size=types, max_size=types)),
        rate=rate,
        together=draw(st.sampled_from([0.0, 0.4, 0.8])) if paired else None,
    )
    left = draw(st.lists(st.floats(10.0, 1e5), min_size=jobs, max_size=jobs))
    waited = draw(st.lists(st.floats(0.0, 1e5), min_size=jobs, max_size=jobs))
    return replace(
        found,
        steps_left=np.array(left),
        steps_total=np.array(left) * 2.0,
        elapsed_s=np.array(waited),
        t_s=max(waited),
    )


def is_feasible(problem: TimeShareProblem, shares: TimeShares) -> bool:
    """Say whether nobody has more than all its time, and no type more than its GPUs."""
    time = shares.jobs.sum(axis=1)
    held = problem.gpus @ shares.jobs
    for row, pair in zip(shares.pairs, problem.pairs, strict=True):
        time[pair] += row.sum()
        held = held + problem.gpus[pair[0]] * row
    low = min(shares.jobs.min(initial=0.0), shares.pairs.min(initial=0.0))
    return bool(
        low >= 0.0 and (time <= 1.0 + 1e-6).all() and (held <= problem.capacity + 1e-5).all()
    )
