"""How sure a figure is, and a difference between two policies.

Jobs that were submitted about the same time share a fate, so whole blocks of them are drawn again
and again (the block bootstrap), and with each draw every policy gets the same blocks: what all
policies suffer alike cancels in their differences. Figures of the cluster over time (utilisation,
fairness) are drawn by blocks of time. Several runs (seeds, windows, clusters) are drawn as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from steward.model.replay import Replay
from steward.sim.lab.judge.job_times import JobTimes, added_up
from steward.sim.lab.judge.measures import Measures

__all__ = ["DRAWS", "Difference", "JobSample", "difference", "drawn", "interval", "sample_of"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

DRAWS = 2000
BLOCKS = 64
STEPS = 500  # quantiles are exact to 0.2 % of the jobs, and to 0.01 % at the upper end
CONFIDENCE = 0.95
MEANS = ("jct_mean_s", "wait_mean_s", "slowdown_mean", "rho_mean", "rho_unfair_share")
SUMS = ("preemptions", "unfinished", "lost_gpu_h")
QUANTILES = (0.5, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ladder:
    """A distribution, cut into steps: how many jobs of each block are up to each value."""

    values: Floats
    counts: NDArray[np.int32]  # (blocks, steps)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobSample:
    """One replay by blocks of its jobs and of its time: all that the draws need."""

    jobs: Counts  # per block
    finished: Counts
    last_end_s: Floats
    first_submit_s: float
    sums: dict[str, Floats]  # per block, of `MEANS` over finished jobs and of `SUMS`
    jct: Ladder
    wait: Ladder
    over_time: dict[str, tuple[Floats, Floats]]  # a share: parts and wholes per block of time


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How far a policy is from another; negative is less. `p` is small where it is no accident."""

    by: float
    low: float
    high: float
    relative: float
    relative_low: float
    relative_high: float
    p: float


def sample_of(replay: Replay, times: JobTimes, measures: Measures) -> JobSample:
    """Cut a replay into blocks. The same trace is always cut alike, whatever the policy."""
    block = blocks_of(len(replay.trace))
    many = int(block[-1]) + 1 if len(block) else 1
    done = ~np.isnan(times.jct_s)
    held = np.divide(times.gpu_s, times.run_s, out=np.zeros(len(block)), where=times.run_s > 0)
    per_job = {
        "jct_mean_s": times.jct_s,
        "wait_mean_s": times.wait_s,
        "slowdown_mean": times.slowdown,
        "rho_mean": times.rho,
        "rho_unfair_share": np.where(np.isnan(times.rho), np.nan, times.rho > 1.0 + 1e-9),
        "preemptions": replay.preemptions.astype(np.float64),
        "unfinished": (~done).astype(np.float64),
        "lost_gpu_h": replay.lost_s * held / 3600.0,
    }
    last_end_s = np.full(many, -np.inf)
    np.maximum.at(last_end_s, block, np.where(done, replay.end_s, -np.inf))
    return JobSample(
        jobs=np.bincount(block, minlength=many),
        finished=np.bincount(block[done], minlength=many),
        last_end_s=last_end_s,
        first_submit_s=float(replay.trace.submit_s[0]) if len(block) else 0.0,
        sums={name: added_up(block, np.nan_to_num(v), many) for name, v in per_job.items()},
        jct=_ladder(times.jct_s[done], block[done], many),
        wait=_ladder(times.wait_s[done], block[done], many),
        over_time=_over_time(measures),
    )


def blocks_of(jobs: int) -> Counts:
    """Return the block of each job: neighbours in order of submission, in blocks of equal size."""
    many = max(1, min(BLOCKS, jobs if jobs < 16 else max(8, isqrt(jobs))))
    return np.arange(jobs) * many // max(jobs, 1)


def drawn(
    runs: Sequence[Mapping[str, JobSample]], *, seed: int = 0
) -> dict[str, dict[str, Floats]]:
    """Return the figures of every policy under the same draws: policy -> figure -> values.

    `runs` are seeds, windows or clusters, each with a sample per policy. A figure is the mean over
    runs; runs are drawn as well as the blocks within them.
    """
    dice = np.random.default_rng(seed)
    chosen = dice.integers(0, len(runs), (DRAWS, len(runs)))
    found: dict[str, dict[str, Floats]] = {}
    each_run = [_one_run(run, dice) for run in runs]
    for policy in runs[0]:
        names = each_run[0][policy]
        tables = {name: np.stack([run[policy][name] for run in each_run]) for name in names}
        rows = np.arange(DRAWS)[:, None]
        found[policy] = {name: table[chosen, rows].mean(axis=1) for name, table in tables.items()}
    return found


def interval(values: Floats) -> tuple[float, float]:
    """Return where the figure lies with 95 % confidence."""
    known = values[np.isfinite(values)]
    if not len(known):
        return float("nan"), float("nan")
    low, high = np.quantile(known, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def difference(policy: Floats, baseline: Floats, *, figure: float, other: float) -> Difference:
    """Compare a figure with the baseline's `other`, from draws that both shared."""
    apart = policy - baseline
    known = apart[np.isfinite(apart)]
    share = apart / np.where(baseline == 0, np.nan, baseline)
    low, high = interval(apart)
    relative_low, relative_high = interval(share)
    less, more = int((known <= 0).sum()), int((known >= 0).sum())
    p = min(1.0, 2 * (min(less, more) + 1) / (len(known) + 1)) if len(known) else float("nan")
    return Difference(
        by=figure - other,
        low=low,
        high=high,
        relative=(figure - other) / other if other else float("nan"),
        relative_low=relative_low,
        relative_high=relative_high,
        p=p,
    )


def _one_run(
    run: Mapping[str, JobSample], dice: np.random.Generator
) -> dict[str, dict[str, Floats]]:
    """Draw blocks once, for all policies of a run alike."""
    first = next(iter(run.values()))
    blocks = len(first.jobs)
    times = max(len(parts) for parts, _ in first.over_time.values())
    weights = dice.multinomial(blocks, np.full(blocks, 1 / blocks), DRAWS).astype(np.float64)
    spans = dice.multinomial(times, np.full(times, 1 / times), DRAWS).astype(np.float64)
    return {policy: _figures(sample, weights, spans) for policy, sample in run.items()}


def _figures(sample: JobSample, weights: Floats, spans: Floats) -> dict[str, Floats]:
    finished = weights @ sample.finished
    jobs = weights @ sample.jobs
    found = {name: _part(weights @ sample.sums[name], finished) for name in MEANS}
    whole = float(sample.jobs.sum())
    found |= {name: _part(weights @ sample.sums[name], jobs) * whole for name in SUMS}
    for which in ("jct", "wait"):
        p50, p99 = _quantiles(getattr(sample, which), weights, finished)
        found |= {f"{which}_p50_s": p50, f"{which}_p99_s": p99}
    ends = np.where(weights > 0, sample.last_end_s, -np.inf).max(axis=1)
    found["makespan_s"] = ends - sample.first_submit_s
    for name, (parts, wholes) in sample.over_time.items():
        found[name] = _part(spans @ parts, spans @ wholes, nothing=_NOTHING.get(name, np.nan))
    return found


def _quantiles(ladder: Ladder, weights: Floats, finished: Floats) -> list[Floats]:
    if not len(ladder.values):
        return [np.full(len(weights), np.nan) for _ in QUANTILES]
    upto = np.cumsum(weights @ ladder.counts, axis=1)
    steps = [(upto < q * finished[:, None] - 1e-9).sum(axis=1) for q in QUANTILES]
    return [ladder.values[np.minimum(step, len(ladder.values) - 1)] for step in steps]


def _ladder(values: Floats, block: Counts, many: int) -> Ladder:
    """Cut a distribution into steps, finer at the upper end, and count jobs by block and step."""
    if not len(values):
        return Ladder(values=np.empty(0), counts=np.zeros((many, 0), np.int32))
    shares = np.concatenate([np.linspace(0, 1, STEPS + 1), np.linspace(0.95, 1, STEPS + 1)])
    steps = np.unique(np.quantile(values, shares, method="inverted_cdf"))
    step = np.searchsorted(steps, values)
    counts = np.bincount(block * len(steps) + step, minlength=many * len(steps))
    return Ladder(values=steps, counts=counts.reshape(many, -1).astype(np.int32))


_NOTHING = {"fairness_compliance": 1.0, "share_compliance": 1.0}  # no demand: nobody is short


def _over_time(measures: Measures) -> dict[str, tuple[Floats, Floats]]:
    line = measures.timeline
    width_s = np.diff(line.edges_s)
    there, used = line.capacity_gpus * width_s, line.allocated_gpus * width_s
    queue = line.queue_mean * width_s
    rows = {
        "utilisation": (used, there),
        "fairness_compliance": (line.demand_s - line.short_s, line.demand_s),
        "share_compliance": (line.demand_s - line.share_short_s, line.demand_s),
        "queue_mean": (queue, width_s),
    }
    return {name: (_coarse(parts), _coarse(wholes)) for name, (parts, wholes) in rows.items()}


def _coarse(values: Floats) -> Floats:
    """Join neighbouring buckets: what follows within a block need not be independent."""
    starts = np.linspace(0, len(values), BLOCKS, endpoint=False).astype(np.int64)
    return np.add.reduceat(values, starts).astype(np.float64)


def _part(parts: Floats, wholes: Floats, *, nothing: float = float("nan")) -> Floats:
    found = np.full(len(parts), nothing)
    np.divide(parts, wholes, out=found, where=wholes > 0)
    return found
