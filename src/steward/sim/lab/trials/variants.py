"""Variants of a trace and of a cluster, and which jobs can run there at all."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.machines import Machines, machines_of
from steward.model.trace import RowFault, Trace

__all__ = ["natural_gpus", "resized", "runnable", "span_s", "window", "with_load"]

ANY_TYPE = "gpu"  # what `machines_of` calls GPUs of which nothing is known
EXAMPLES = 5
COMFORTABLE_SHARE = 0.8  # of the GPUs in use on average, where nobody says how many there are


def span_s(trace: Trace) -> float:
    """Return the time from the first to the last submission."""
    return float(trace.submit_s[-1] - trace.submit_s[0]) if len(trace) else 0.0


def natural_gpus(trace: Trace, *, gpus_per_node: int) -> int:
    """Return the smallest cluster of whole nodes that the trace fills to 80 % on average."""
    longest_s = float(trace.duration_s.max(initial=0.0))
    mean = trace.gpu_seconds / max(span_s(trace), longest_s, 1.0)
    least = max(mean / COMFORTABLE_SHARE, float(trace.gpus.max(initial=0.0)), 1.0)
    return ceil(least / gpus_per_node - 1e-9) * gpus_per_node


def with_load(trace: Trace, load: float) -> Trace:
    """Let the same jobs arrive faster (above 1) or slower."""
    if load == 1.0:
        return trace
    return replace(
        trace,
        name=f"{trace.name} at load {load:g}",
        submit_s=trace.submit_s / load,
        start_s=np.full(len(trace), np.nan),
    )


def window(trace: Trace, which: int, many: int) -> Trace:
    """Return one of `many` windows of equal length, from its own first submission."""
    edges = np.linspace(0.0, span_s(trace), many + 1) + trace.submit_s[:1].sum()
    edges[-1] = np.inf
    inside = (trace.submit_s >= edges[which]) & (trace.submit_s < edges[which + 1])
    return trace.rows(inside, name=f"{trace.name} window {which + 1} of {many}")


def resized(machines: Machines, gpus: int) -> Machines:
    """Return the same kind of cluster with another number of GPUs."""
    if len(machines.types) > 1 or machines.changes:
        raise StewardError(
            "the number of GPUs can only be varied for clusters of one type that do not change",
            hint="leave `--vary gpus=…` out, or give --gpus instead of --cluster",
        )
    made = machines_of(gpus, gpus_per_node=int(machines.gpus.max()), gpu_type=machines.types[0])
    alike = ("price_per_gpu_h", "idle_watts", "busy_watts", "gram_co2_per_kwh", "mig_slices")
    first: dict[str, Any] = {
        name: np.resize(getattr(machines, name)[:1], len(made)) for name in alike
    }
    return replace(made, **first)


def runnable(trace: Trace, machines: Machines) -> tuple[Trace, tuple[RowFault, ...]]:
    """Return the jobs that can run on these machines, and which cannot, and why.

    They are left out for every policy alike. A cluster whose GPUs have no type takes all types.
    """
    faults: list[RowFault] = []
    allowed = np.ones((len(trace.gpu_types) + 1, len(machines.types)), np.bool_)
    if machines.types == (ANY_TYPE,):
        trace, ignored = _untyped(trace)
        faults += ignored
    else:
        for code, names in enumerate(trace.gpu_types):
            allowed[code] = np.isin(machines.types, names.split("|"))
    most = _most_gpus(machines)
    room = np.where(allowed, most, 0).sum(axis=1)[trace.gpu_type]
    no_type = (allowed.sum(axis=1) == 0)[trace.gpu_type]
    too_large = ~no_type & (trace.gpus > room + 1e-9)
    have = ", ".join(machines.types)
    faults += _fault(trace, no_type, f"GPU type not in the cluster (it has {have})")
    faults += _fault(trace, too_large, f"larger than the cluster ({most.sum():g} GPUs)")
    out = no_type | too_large
    return (trace.rows(~out) if out.any() else trace), tuple(faults)


def _untyped(trace: Trace) -> tuple[Trace, list[RowFault]]:
    named = int((trace.gpu_type >= 0).sum())
    if not named:
        return trace, []
    reason = "GPU type ignored: the GPUs of this cluster have no type"
    free = replace(trace, gpu_type=np.full(len(trace), -1), gpu_types=())
    return free, [RowFault(reason=reason, rows=named, kept=True)]


def _most_gpus(machines: Machines) -> NDArray[np.float64]:
    """Return how many GPUs of each type are there at best."""
    up = machines.up.copy()
    most = np.bincount(machines.type, machines.gpus * up, minlength=len(machines.types))
    for change in sorted(machines.changes, key=lambda each: each.t_s):
        up[change.node] = change.up
        now = np.bincount(machines.type, machines.gpus * up, minlength=len(machines.types))
        most = np.maximum(most, now)
    return most.astype(np.float64)


def _fault(trace: Trace, rows: NDArray[np.bool_], reason: str) -> list[RowFault]:
    places = np.flatnonzero(rows)
    if not len(places):
        return []
    examples = []
    for i in places[:EXAMPLES]:
        kind = f" of type {trace.gpu_types[trace.gpu_type[i]]}" if trace.gpu_type[i] >= 0 else ""
        examples.append(f"job {trace.job_id[i]} asks for {trace.gpus[i]:g} GPUs{kind}")
    return [RowFault(reason=reason, rows=len(places), examples=tuple(examples))]
