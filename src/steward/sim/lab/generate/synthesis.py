"""Make a trace like the one a model was fitted to: as many jobs, tenants and as much load as asked.

Run times follow the fitted distribution of their tenant and size; which job gets which of them
follows its family and how it ended, so that similar past jobs are worth knowing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from steward.errors import StewardError
from steward.model.trace import UNKNOWN_UNLESS_GIVEN, Trace
from steward.sim.lab.generate.fit import HOURS_PER_WEEK, LEVELS, Bursts, TraceModel, size_class
from steward.sim.lab.generate.job_families import OUTCOMES, Families, Outcomes, draw_families

__all__ = ["Made", "generate", "make"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Made:
    """A made-up trace, with what its jobs would not tell a scheduler."""

    trace: Trace
    family: Ints  # per job; its name is the job's `model`
    outcome: Ints  # per job: 0 completed, 1 cancelled, 2 failed


def generate(
    model: TraceModel,
    *,
    jobs: int,
    seed: int,
    load: float = 1.0,
    tenants: int = 0,
    users: int = 20,
) -> Trace:
    """Make a trace of `jobs` jobs that come `load` times as fast as in the fitted trace.

    `tenants` 0 keeps the fitted ones; fewer keeps the largest, more copies them. `users` is per
    tenant. The same arguments give the same trace.
    """
    if jobs < 1 or load <= 0 or tenants < 0 or users < 1:
        problem = f"cannot make {jobs} jobs at load {load} for {tenants} tenants of {users} users"
        raise StewardError(problem, where="generate", hint="all must be positive")
    return make(_with_tenants(model, tenants), jobs=jobs, seed=seed, load=load, users=users).trace


def make(
    model: TraceModel,
    *,
    jobs: int,
    seed: int,
    load: float = 1.0,
    users: int = 20,
    outcomes: Outcomes = OUTCOMES["helios"],
) -> Made:
    """Make a trace and say which family each job is of and how it ended."""
    rng = np.random.default_rng(seed)
    names = tuple(dict.fromkeys(cell.tenant or "all" for cell in model.cells))
    place = {name: i for i, name in enumerate(names)}
    drawn, size = _bursts(rng, model, jobs)
    start_s = _burst_times(rng, model, len(size), load)
    tenant = np.array([place[cell.tenant or "all"] for cell in model.cells])[drawn]
    gpus = np.array([cell.gpus for cell in model.cells])[drawn]
    families = draw_families(rng, tenant, gpus, names=names, users=users)
    burst = np.repeat(np.arange(len(size)), size)
    outcome = rng.choice(3, size=jobs, p=np.array(outcomes.of_jobs) / sum(outcomes.of_jobs))
    level = _levels(rng, model, families.level[families.family[burst]], outcomes, outcome)
    duration_s = _durations(model, drawn[burst], level)
    submit_s = start_s[burst] + _inside(rng, size, model.burst_gap_s)
    order = np.argsort(submit_s, kind="stable")
    columns = {"submit_s": submit_s, "duration_s": duration_s, "gpus": gpus[burst]}
    codes = {"tenant": tenant[burst], "user": families.user[burst], "model": families.family[burst]}
    about = f"made with seed {seed}, load {load:g}, fitted to {model.name} ({model.jobs} jobs)"
    trace = _trace(
        f"{model.name}-like",
        about,
        {name: values[order] for name, values in (columns | codes).items()},
        names,
        families,
    )
    return Made(trace=trace, family=trace.model, outcome=outcome[order])


def _with_tenants(model: TraceModel, tenants: int) -> TraceModel:
    """Return the model with so many tenants: the largest, or copies named `vc.2`, `vc.3`."""
    own: dict[str, float] = {}
    for cell in model.cells:
        own[cell.tenant] = own.get(cell.tenant, 0.0) + cell.share
    if tenants in (0, len(own)):
        return model
    largest = sorted(own, key=lambda name: (-own[name], name))
    cells, lengths = [], [spread for spread in model.lengths if spread.tenant == "*"]
    for i in range(tenants):
        origin, copy = largest[i % len(own)], i // len(own)
        name = f"{origin or 'all'}.{copy + 1}" if copy else origin
        cells += [replace(c, tenant=name) for c in model.cells if c.tenant == origin]
        lengths += [replace(c, tenant=name) for c in model.lengths if c.tenant == origin]
    return replace(model, cells=tuple(cells), lengths=tuple(lengths))


def _per_burst(model: TraceModel) -> tuple[Floats, list[Bursts]]:
    """Return how often a burst is of each cell, so that jobs are, and how large it then is."""
    known = {kind.size: kind for kind in model.bursts}
    kinds = [known[_size(cell.gpus)] for cell in model.cells]
    weight = np.array([c.share / k.mean for c, k in zip(model.cells, kinds, strict=True)])
    return weight, kinds


def _size(gpus: float) -> int:
    return int(size_class(np.array([gpus]))[0])


def _bursts(rng: np.random.Generator, model: TraceModel, jobs: int) -> tuple[Ints, Ints]:
    """Draw cells and sizes of bursts that make exactly so many jobs; the last may be cut."""
    weight, kinds = _per_burst(model)
    cells: list[Ints] = []
    sizes: list[Ints] = []
    missing = jobs
    while missing > 0:
        cell = rng.choice(len(weight), size=max(missing // 2, 16), p=weight / weight.sum())
        size = np.empty(len(cell), np.int64)
        for i in np.unique(cell).tolist():
            rows = cell == i
            share = np.array(kinds[i].shares)
            size[rows] = rng.choice(kinds[i].jobs, size=int(rows.sum()), p=share / share.sum())
        enough = int(np.searchsorted(np.cumsum(size), missing)) + 1
        cells.append(cell[:enough])
        sizes.append(size[:enough])
        missing -= int(sizes[-1].sum())
    sizes[-1][-1] += missing  # never positive: what the last burst has too many
    return np.concatenate(cells), np.concatenate(sizes)


def _burst_times(rng: np.random.Generator, model: TraceModel, count: int, load: float) -> Floats:
    """Return times of a Poisson process whose rate follows the hour of the week."""
    weight, _ = _per_burst(model)
    per_s = model.jobs_per_s * load * float(weight.sum()) / sum(c.share for c in model.cells)
    expected = np.concatenate(([0.0], np.cumsum(np.array(model.hours) * 3600.0 * per_s)))
    turns = np.cumsum(rng.exponential(size=count))
    week, rest = np.divmod(turns, expected[-1])
    hours = np.interp(rest, expected, np.arange(HOURS_PER_WEEK + 1))
    times: Floats = (week * HOURS_PER_WEEK + hours) * 3600.0
    return times


def _inside(rng: np.random.Generator, size: Ints, gap_s: float) -> Floats:
    """Return, per job, how long after the start of its burst it comes."""
    gaps = rng.exponential(gap_s, int(size.sum())) if gap_s > 0 else np.zeros(int(size.sum()))
    first = np.concatenate(([0], np.cumsum(size)[:-1]))
    gaps[first] = 0.0
    along = np.cumsum(gaps)
    return along - np.repeat(along[first], size)


def _levels(
    rng: np.random.Generator,
    model: TraceModel,
    family: Floats,
    outcomes: Outcomes,
    outcome: Ints,
) -> Floats:
    """Return where each run time lies among all (0..1): by family, by outcome, by chance."""
    chance = min(model.family_log_sd / model.log_sd, 1.0)
    own = chance * rng.standard_normal(len(family))
    shift = _shifts(model, outcomes)
    return _level(np.sqrt(1.0 - chance**2) * family + own, shift, outcomes, outcome)


def _level(normal: Floats, shift: Floats, outcomes: Outcomes, outcome: Ints) -> Floats:
    """Return levels whose distribution over all outcomes is even."""
    share = np.array(outcomes.of_jobs) / sum(outcomes.of_jobs)
    mean = float(share @ shift)
    spread = np.sqrt(1.0 + float(share @ (shift - mean) ** 2))
    level: Floats = ndtr((normal + shift[outcome] - mean) / spread)
    return level


def _shifts(model: TraceModel, outcomes: Outcomes) -> Floats:
    """Return how much longer each kind of end runs, so that its share of GPU time is right.

    In standard deviations of log run time; found by trying, on the fitted distributions.
    """
    steps = ndtri((np.arange(400) + 0.5) / 400)
    normal, outcome = np.tile(steps, 3), np.repeat(np.arange(3), len(steps))
    jobs = np.array(outcomes.of_jobs)[outcome]
    wanted = np.array(outcomes.of_gpu_time) / sum(outcomes.of_gpu_time)
    shift = np.zeros(3)
    for _ in range(20):
        level = _level(normal, shift, outcomes, outcome)
        work = np.zeros(len(level))
        for cell, seconds in zip(model.cells, _seconds(model), strict=True):
            run_s = np.exp(np.interp(level, LEVELS, np.log(seconds)))
            work += cell.share * cell.gpus * run_s
        got = np.bincount(outcome, work * jobs, minlength=3)
        shift += 0.7 * np.log(wanted / (got / got.sum())) / max(model.log_sd, 0.5)
        shift = np.clip(shift, -2.0, 2.0)
    return shift


def _seconds(model: TraceModel) -> list[tuple[float, ...]]:
    """Return the run times of each cell: its tenant's own, or those of all of that size."""
    known = {(spread.tenant, spread.size): spread.seconds for spread in model.lengths}
    return [
        known.get((cell.tenant, _size(cell.gpus))) or known["*", _size(cell.gpus)]
        for cell in model.cells
    ]


def _durations(model: TraceModel, cell: Ints, level: Floats) -> Floats:
    """Return run times: the fitted quantiles of each job's tenant and size, smooth between."""
    duration_s = np.empty(len(level))
    for i, seconds in enumerate(_seconds(model)):
        rows = cell == i
        duration_s[rows] = np.exp(np.interp(level[rows], LEVELS, np.log(seconds)))
    return np.maximum(duration_s.round(3), 0.001)


def _trace(
    name: str,
    origin: str,
    columns: dict[str, Floats | Ints],
    tenants: tuple[str, ...],
    families: Families,
) -> Trace:
    n = len(columns["submit_s"])
    unknown = {column: np.full(n, np.nan) for column in UNKNOWN_UNLESS_GIVEN}
    whole: dict[str, Any] = {**unknown, **columns}
    whole["submit_s"] = whole["submit_s"].round(3)
    return Trace(
        name=name,
        origin=origin,
        synthetic=True,
        job_id=np.array([str(i) for i in range(n)], object),
        gpu_type=np.full(n, -1, np.int64),
        tenants=tenants,
        users=families.users,
        models=families.names,
        gpu_types=(),
        priority=np.zeros(n, np.int64),
        after=np.empty((0, 2), np.int64),
        **whole,
    )
