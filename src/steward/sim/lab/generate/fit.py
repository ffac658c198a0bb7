"""What is typical of a trace: when jobs come, whose they are, how large and how long."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.trace import Trace
from steward.sim.lab.generate.bursts import bursts

__all__ = ["LEVELS", "Bursts", "Cell", "Lengths", "TraceModel", "fit", "model_from", "size_class"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

HOURS_PER_WEEK = 168
_CLASSES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # upper ends; larger jobs are one class more
# Dense at both ends: the longest percent of jobs is most of the work.
LEVELS = (0.0, 0.001, 0.01, *(i / 50 for i in range(1, 50)), 0.99, 0.995, 0.999, 1.0)
_FEWEST = 30  # jobs from which a distribution of its own is taken
# Spread of log run time inside bursts of the Philly trace (0.65: two thirds of the jobs are
# within a factor of 1.9 of each other), for traces that are too small to show their own.
PHILLY_FAMILY_LOG_SD = 0.65


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """How often a tenant asks for so many GPUs."""

    tenant: str
    gpus: float
    share: float  # of all jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Run times of a tenant's jobs of one size class, at `LEVELS`."""

    tenant: str
    size: int
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bursts:
    """How many jobs of one size class are submitted together."""

    size: int
    jobs: tuple[int, ...]
    shares: tuple[float, ...]  # of the bursts of that class

    @property
    def mean(self) -> float:
        """Jobs per burst."""
        return sum(jobs * share for jobs, share in zip(self.jobs, self.shares, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceModel:
    """All that `generate` needs to make a trace like the one it was fitted to."""

    name: str
    jobs: int  # it was fitted to
    jobs_per_s: float
    hours: tuple[float, ...]  # relative rate in each hour of the week, from the trace's start
    bursts: tuple[Bursts, ...]
    burst_gap_s: float  # mean, between jobs of one burst
    cells: tuple[Cell, ...]
    lengths: tuple[Lengths, ...]
    log_sd: float  # of run times, all jobs
    family_log_sd: float  # of run times, jobs of one burst

    def as_json(self) -> str:
        """Return the model as JSON; `model_from` reads it."""
        return json.dumps(asdict(self), indent=1)


def model_from(text: str, *, where: str = "") -> TraceModel:
    """Read a model that was written with `as_json`."""
    try:
        record = json.loads(text)
        return TraceModel(
            **{
                **record,
                "hours": tuple(record["hours"]),
                "bursts": tuple(
                    Bursts(size=b["size"], jobs=tuple(b["jobs"]), shares=tuple(b["shares"]))
                    for b in record["bursts"]
                ),
                "cells": tuple(Cell(**cell) for cell in record["cells"]),
                "lengths": tuple(
                    Lengths(**{**cell, "seconds": tuple(cell["seconds"])})
                    for cell in record["lengths"]
                ),
            }
        )
    except (ValueError, KeyError, TypeError) as fault:
        hint = "fit one with `steward lab generate`"
        raise StewardError(f"is no trace model: {fault}", where=where, hint=hint) from None


def size_class(gpus: Floats) -> Ints:
    """Return the class of each size: up to half a GPU, one, two, 3-4, 5-8, 9-16, more."""
    return np.searchsorted(_CLASSES, gpus, side="left")


def fit(trace: Trace) -> TraceModel:
    """Fit a model. CPU jobs are left out: no generated job is without a GPU."""
    jobs = trace.rows(trace.gpus > 0)
    if len(jobs) < 2:
        problem = f"{len(jobs)} GPU jobs are too few to fit"
        raise StewardError(problem, where=trace.name, hint="a trace with some hundred jobs")
    burst = bursts(jobs)
    starts = np.unique(burst, return_index=True)[1]
    logs = np.log(jobs.duration_s)
    return TraceModel(
        name=trace.name,
        jobs=len(jobs),
        jobs_per_s=len(jobs) / max(float(jobs.submit_s[-1]), 1.0),
        hours=_hours(trace.submit_s[trace.gpus > 0][starts]),
        bursts=_bursts(burst, size_class(jobs.gpus[starts])),
        burst_gap_s=_gap_s(jobs, burst),
        cells=_cells(jobs),
        lengths=_lengths(jobs),
        log_sd=max(float(logs.std()), 1e-6),
        family_log_sd=_family_log_sd(logs, burst),
    )


def _hours(starts_s: Floats) -> tuple[float, ...]:
    """Return the relative rate per hour of the week, drawn towards 1 where little was seen."""
    hour = (starts_s // 3600).astype(np.int64)
    span = np.arange(hour.min(), hour.max() + 1) % HOURS_PER_WEEK
    seen = np.bincount(span, minlength=HOURS_PER_WEEK)  # how often each hour of the week came by
    came = np.bincount(hour % HOURS_PER_WEEK, minlength=HOURS_PER_WEEK)
    expected = seen * len(starts_s) / len(span)
    rate = (came + 1.0) / (expected + 1.0)
    return tuple((rate / rate.mean()).round(6).tolist())


def _bursts(burst: Ints, kind: Ints) -> tuple[Bursts, ...]:
    length = np.bincount(burst)
    found = []
    for size in np.unique(kind).tolist():
        jobs, counts = np.unique(length[kind == size], return_counts=True)
        shares = tuple((counts / counts.sum()).tolist())
        found.append(Bursts(size=size, jobs=tuple(jobs.tolist()), shares=shares))
    return tuple(found)


def _gap_s(jobs: Trace, burst: Ints) -> float:
    order = np.argsort(burst, kind="stable")
    inside = np.diff(burst[order]) == 0
    gaps = np.diff(jobs.submit_s[order])[inside]
    return float(gaps.mean()) if len(gaps) else 0.0


def _tenant_names(jobs: Trace) -> list[str]:
    return [*jobs.tenants, ""]  # -1, "none", is the last


def _cells(jobs: Trace) -> tuple[Cell, ...]:
    names = _tenant_names(jobs)
    pairs, counts = np.unique(
        np.column_stack((jobs.tenant.astype(np.float64), jobs.gpus)), axis=0, return_counts=True
    )
    return tuple(
        Cell(tenant=names[int(tenant)], gpus=float(gpus), share=count / len(jobs))
        for (tenant, gpus), count in zip(pairs, counts.tolist(), strict=True)
    )


def _lengths(jobs: Trace) -> tuple[Lengths, ...]:
    """Return quantiles per tenant and size; all tenants together stand in for small groups."""
    names, size = _tenant_names(jobs), size_class(jobs.gpus)
    found = []
    for kind in np.unique(size).tolist():
        these = size == kind
        found.append(_quantiles("*", kind, jobs.duration_s[these]))
        for tenant in np.unique(jobs.tenant[these]).tolist():
            own = jobs.duration_s[these & (jobs.tenant == tenant)]
            if len(own) >= _FEWEST:
                found.append(_quantiles(names[tenant], kind, own))
    return tuple(found)


def _quantiles(tenant: str, kind: int, seconds: Floats) -> Lengths:
    values = np.exp(np.quantile(np.log(seconds), LEVELS))
    return Lengths(tenant=tenant, size=kind, seconds=tuple(float(f"{v:.6g}") for v in values))


def _family_log_sd(logs: Floats, burst: Ints) -> float:
    """Return the spread of log run times inside bursts of three or more."""
    counts = np.bincount(burst)
    mean = np.bincount(burst, logs) / counts
    rows = counts[burst] >= 3
    freedom = int(rows.sum()) - int((counts >= 3).sum())
    if freedom < 100:
        return PHILLY_FAMILY_LOG_SD
    return float(np.sqrt(np.sum((logs - mean[burst])[rows] ** 2) / freedom))
