"""Requests for the comparison of serving policies: mixes of classes, bursts, models, prefixes.

Lengths are those of the public traces (Azure's chat, ShareGPT, arXiv summaries, Mooncake); which
class, tenant and model a request has, and when it arrives, is drawn by seed. Promises are QLM's
three (20 s, 1 min, 1 h to the first token) on a time scale that fits runs of some minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from steward.decide.serving.fcfs import Fcfs
from steward.model.serving.instance_type import H200_LLAMA_8B, InstanceType
from steward.model.serving.requests import DeadlineClass, RequestTrace, requests_of
from steward.sim.serving.simulate import Fleet, simulate
from steward.sim.serving.traces import read_requests

__all__ = ["CHAT", "Mix", "arrivals", "capacity", "drawn", "slower"]

Floats = NDArray[np.float64]

CHAT = DeadlineClass(name="chat", rank=0, ttft_s=10.0, itl_s=0.2)
STANDARD = DeadlineClass(name="standard", rank=1, ttft_s=60.0, itl_s=0.5)
BATCH = DeadlineClass(name="batch", rank=2, completion_s=240.0)
SLOWER = 3.0  # than an 8B model on one H200: fewer requests for the same load
TENANTS = 8
MAX_TOKENS = 1024  # answers are cut there, as clients do


def slower(kind: InstanceType = H200_LLAMA_8B, **given: object) -> InstanceType:
    """Return an instance type like that of a larger model: each step takes three times as long."""
    step_times = kind.step_times.scaled(SLOWER)
    usual = {"max_sequences": 128, "kv_tokens": 262_144, "start_s": 45.0, "swap_s": 15.0}
    return replace(kind, step_times=step_times, **{**usual, **given})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Which part of the requests is of which class, each with the lengths of one trace."""

    chat: float = 0.6
    standard: float = 0.2
    batch: float = 0.2
    batch_lengths: str = "arxiv_summarization_lengths"
    classes: tuple[DeadlineClass, ...] = (CHAT, STANDARD, BATCH)


@cache
def _lengths(name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    trace = read_requests(name)
    return trace.prompt_tokens, trace.output_tokens


def drawn(
    mix: Mix,
    arrival_s: Floats,
    *,
    seed: int,
    models: Callable[[Floats, np.random.Generator], NDArray[np.int64]] | None = None,
) -> RequestTrace:
    """Return requests at these times; the first tenant sends half of them."""
    draw = np.random.default_rng((seed, 7))
    count = len(arrival_s)
    code = draw.choice(3, count, p=[mix.chat, mix.standard, mix.batch])
    prompt, output = np.zeros((2, count), np.int64)
    for place, name in enumerate(("azure_llm_2023_conv", "sharegpt_lengths", mix.batch_lengths)):
        mine = np.flatnonzero(code == place)
        known = _lengths(name)
        chosen = draw.integers(0, len(known[0]), len(mine))
        prompt[mine] = known[0][chosen]
        output[mine] = np.minimum(known[1][chosen], MAX_TOKENS)
    tenant = np.where(draw.random(count) < 0.5, 0, draw.integers(1, TENANTS, count))
    model = None if models is None else [f"model-{each}" for each in models(arrival_s, draw)]
    fits = prompt + output < 60_000
    return requests_of(
        "mix",
        arrival_s=arrival_s[fits],
        prompt_tokens=prompt[fits],
        output_tokens=output[fits],
        classes=mix.classes,
        deadline_class=code[fits],
        tenant=[f"tenant-{each}" for each in tenant[fits]],
        model=None
        if model is None
        else [name for name, kept in zip(model, fits, strict=True) if kept],
        synthetic=True,
    )


def arrivals(
    rate: float, span_s: float, *, seed: int, shape: Callable[[Floats], Floats] | None = None
) -> Floats:
    """Return Poisson arrivals at a mean rate; `shape` gives the relative rate at each time."""
    draw = np.random.default_rng((seed, 3))
    grid = np.arange(0.0, span_s, 1.0)
    level = np.ones(len(grid)) if shape is None else shape(grid)
    level = level / level.mean()
    counts = draw.poisson(rate * level)
    times = np.repeat(grid, counts) + draw.random(int(counts.sum()))
    ordered: Floats = np.sort(times)
    return ordered


def capacity(mix: Mix, kind: InstanceType) -> float:
    """Return how many requests of a mix one instance serves a second, from a long backlog."""
    backlog = drawn(mix, np.zeros(3000), seed=0)
    backlog = replace(backlog, models=(), model=np.full(len(backlog), -1))
    run = simulate(backlog, Fleet(types=(kind,), instances=(0,)), Fcfs())
    half = np.sort(run.finish_s)[len(backlog) * 9 // 10]
    return len(backlog) * 0.9 / float(half)
