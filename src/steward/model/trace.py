"""A workload as it was recorded or made up: one row per job, as columns.

Codes point into the tuples of names beside them; -1 is "none given". NaN is "unknown". Times are
seconds from the start of the trace; rows are sorted by `submit_s`, ties in the order of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["UNKNOWN_UNLESS_GIVEN", "RowFault", "Trace", "trace_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Names = NDArray[np.object_]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFault:
    """Rows that were left out, or changed, and why. `examples` say where and what stood there."""

    reason: str
    rows: int
    examples: tuple[str, ...] = ()
    kept: bool = False  # the row was mended and runs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """Jobs to replay. What a reader could not use is in `faults`, never dropped in silence."""

    name: str
    origin: str  # the file and reader, or how it was made
    synthetic: bool = False  # any part of it was made up: shown wherever the trace is
    job_id: Names
    submit_s: Floats
    duration_s: Floats  # alone, at the size asked for
    gpus: Floats  # 0.25 is a quarter of one GPU; whole numbers otherwise; 0 is a CPU job
    tenant: Ints
    user: Ints
    gpu_type: Ints
    model: Ints
    tenants: tuple[str, ...]
    users: tuple[str, ...]
    gpu_types: tuple[str, ...]  # 'V100M16|V100M32' allows either
    models: tuple[str, ...]
    cpus: Floats
    memory_bytes: Floats
    batch: Floats
    priority: Ints
    deadline_s: Floats  # after submission
    checkpoint_s: Floats  # to save and restore once
    time_limit_s: Floats  # run time that its user asked for
    start_s: Floats  # when it started where it was recorded
    cut_off: Floats  # 1: it was ended by its time limit, for want of memory or by a person; 0: not
    after: Ints  # rows of pairs (job, job that must end before), shape (n, 2)
    faults: tuple[RowFault, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.submit_s)

    @property
    def gpu_seconds(self) -> float:
        """All the work in it."""
        return float(np.sum(self.duration_s * self.gpus))

    def rows(self, keep: NDArray[Any], *, name: str = "") -> Trace:
        """Return the trace with only these rows (a mask or sorted positions), from time 0."""
        rows = np.flatnonzero(keep) if keep.dtype == np.bool_ else np.asarray(keep, np.int64)
        place = np.full(len(self), -1, np.int64)
        place[rows] = np.arange(len(rows))
        after = place[self.after] if len(self.after) else self.after
        after = after[(after >= 0).all(axis=1)] if len(after) else after
        columns = {column: getattr(self, column)[rows] for column in _COLUMNS}
        first_s = columns["submit_s"][:1].sum()
        columns["submit_s"] = columns["submit_s"] - first_s
        columns["start_s"] = columns["start_s"] - first_s
        return replace(self, name=name or self.name, after=after, **columns)

    def of_tenant(self, tenant: str) -> Trace:
        """Return one tenant's jobs, from its own first submission."""
        mine = self.tenant == self.tenants.index(tenant)
        return self.rows(mine, name=f"{self.name}/{tenant}")


_NAMED = ("tenant", "user", "gpu_type", "model")
UNKNOWN_UNLESS_GIVEN = (
    *("cpus", "memory_bytes", "batch", "deadline_s", "checkpoint_s", "time_limit_s", "start_s"),
    "cut_off",
)
_COLUMNS = (
    "job_id",
    "submit_s",
    "duration_s",
    "gpus",
    "priority",
    *_NAMED,
    *UNKNOWN_UNLESS_GIVEN,
)


def trace_of(  # noqa: PLR0913 - the three columns that every trace has, and what it is
    name: str,
    *,
    submit_s: Sequence[float] | Floats,
    duration_s: Sequence[float] | Floats,
    gpus: Sequence[float] | Floats,
    origin: str = "",
    synthetic: bool = False,
    faults: tuple[RowFault, ...] = (),
    **columns: Any,  # noqa: ANN401 - any other column of Trace, as an array or a list of names
) -> Trace:
    """Build a trace from the columns that are there; the others get "none" or "unknown".

    `tenant`, `user`, `gpu_type` and `model` are sequences of names ("" is none). Rows are sorted
    by `submit_s`, stably.
    """
    strangers = set(columns) - {*_COLUMNS, "after"}
    assert not strangers, f"no such columns: {sorted(strangers)}"  # noqa: S101 - our own mistake
    submit = np.asarray(submit_s, np.float64)
    n = len(submit)
    given: dict[str, Any] = {
        "submit_s": submit,
        "duration_s": np.asarray(duration_s, np.float64),
        "gpus": np.asarray(gpus, np.float64),
        "job_id": np.array([str(i) for i in columns.get("job_id", range(n))], object),
        "priority": np.asarray(columns.get("priority", np.zeros(n)), np.int64),
    }
    names: dict[str, Any] = {}
    for column in _NAMED:
        given[column], names[f"{column}s"] = _coded(columns.get(column), n)
    for column in UNKNOWN_UNLESS_GIVEN:
        given[column] = np.asarray(columns.get(column, np.full(n, np.nan)), np.float64)
    order = np.argsort(submit, kind="stable")
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    after = np.asarray(columns.get("after", np.empty((0, 2))), np.int64).reshape(-1, 2)
    return Trace(
        name=name,
        origin=origin,
        synthetic=synthetic,
        faults=faults,
        after=place[after] if n else after,
        **names,
        **{column: values[order] for column, values in given.items()},
    )


def _coded(values: Sequence[str] | None, n: int) -> tuple[Ints, tuple[str, ...]]:
    """Return codes in the order of first appearance; -1 where there is no name."""
    if values is None:
        return np.full(n, -1, np.int64), ()
    words = np.asarray(values, object).astype(str)
    unique, first, inverse = np.unique(words, return_index=True, return_inverse=True)
    kept = [i for i in np.argsort(first) if unique[i] != ""]
    code = np.full(len(unique), -1, np.int64)
    code[kept] = np.arange(len(kept))
    return code[inverse.reshape(-1)], tuple(str(unique[i]) for i in kept)
