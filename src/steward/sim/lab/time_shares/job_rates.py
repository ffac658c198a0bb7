"""A trace as steps and rates: how much there is to do, and how fast it goes on which GPU type."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.model.machines import Machines
from steward.model.throughput import ThroughputTable
from steward.model.trace import Trace

__all__ = ["JobRates", "job_rates_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobRates:
    """Rows are jobs of the trace, columns GPU types of the machines."""

    steps: Floats
    whole_steps: bool  # rounds end between two steps
    rate: Floats  # steps/s alone; 0: cannot run there
    reference_rate: Floats  # steps/s for which the trace's duration holds
    reference_type: int
    kind: Ints  # row of the throughput table; -1: not in it
    columns: Ints  # the table's column of each type; -1: not in it
    table: ThroughputTable | None
    notes: tuple[str, ...]

    def beside(self, one: Ints, other: Ints) -> Floats:
        """Return (pairs, types): the rates of jobs `one` while they share GPUs with `other`.

        0 where the pair does not fit or was never measured.
        """
        rates = np.zeros((len(one), self.rate.shape[1]))
        known = (self.kind[one] >= 0) & (self.kind[other] >= 0)
        if self.table is None or not known.any():
            return rates
        for j, column in enumerate(self.columns):
            if column >= 0:
                rates[known, j] = self.table.pairs[
                    column, self.kind[one[known]], self.kind[other[known]]
                ]
        return np.nan_to_num(rates)


def job_rates_of(trace: Trace, machines: Machines, table: ThroughputTable | None) -> JobRates:
    """Look the jobs up in the table; those that are not in it run at speed 1 on every type."""
    jobs, types = len(trace), len(machines.types)
    kind = np.full(jobs, -1, np.int64)
    columns = np.full(types, -1, np.int64)
    if table is not None:
        models = [trace.models[m] if m >= 0 else "" for m in trace.model]
        kind = table.kind_of(models, trace.gpus)
        columns = table.columns_of(machines.types)
    rate = np.ones((jobs, types))
    reference = np.ones(jobs)
    known = np.flatnonzero(kind >= 0)
    if table is not None and len(known):
        measured = np.nan_to_num(table.solo[kind[known]])
        reference[known] = measured[:, table.types.index(table.reference)]
        lookup = np.concatenate([measured, reference[known, None]], axis=1)  # -1: like reference
        rate[known] = lookup[:, columns]
    steps = trace.duration_s * reference
    steps[known] = np.maximum(np.round(steps[known]), 1.0)
    notes: tuple[str, ...] = ()
    if table is not None and len(known) < jobs:
        missing = jobs - len(known)
        notes = (f"{missing} jobs are not in {table.name}: they run at speed 1 on every type",)
    return JobRates(
        steps=steps,
        whole_steps=len(known) == jobs > 0,
        rate=np.where(_allowed(trace, machines), rate, 0.0),
        reference_rate=reference,
        reference_type=_reference_type(machines, table),
        kind=kind,
        columns=columns,
        table=table,
        notes=notes,
    )


def _allowed(trace: Trace, machines: Machines) -> NDArray[np.bool_]:
    """Return (jobs, types): the job asked for that type, or for none in particular."""
    names = [name.lower() for name in machines.types]
    lists = [asked.lower().split("|") for asked in trace.gpu_types]
    asked = np.array([[name in wanted for name in names] for wanted in lists] or [[]], np.bool_)
    allowed = np.ones((len(trace), len(names)), np.bool_)
    picky = trace.gpu_type >= 0
    if picky.any():
        allowed[picky] = asked[trace.gpu_type[picky]]
    return allowed


def _reference_type(machines: Machines, table: ThroughputTable | None) -> int:
    names = [name.lower() for name in machines.types]
    wanted = table.reference.lower() if table is not None else ""
    return names.index(wanted) if wanted in names else 0
