"""Requests to model servers as they were recorded or made up: one row each, as columns.

Codes point into the tuples beside them; -1 is "none given". Rows are sorted by `arrival_s`, ties
in the order of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.model.trace import RowFault

__all__ = ["BATCH", "INTERACTIVE", "DeadlineClass", "RequestTrace", "merged", "requests_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineClass:
    """What requests of one class were promised; None is no promise."""

    name: str
    rank: int  # smaller goes first where classes are served by rank
    ttft_s: float | None = None  # until the first token
    itl_s: float | None = None  # between tokens after the first, on average over the request
    completion_s: float | None = None  # until the last token

    @property
    def urgent_s(self) -> float:
        """Return how long after its arrival a request's first deadline is."""
        given = [each for each in (self.ttft_s, self.completion_s) if each is not None]
        return min(given, default=float("inf"))


# Chiron's: chat reads along, batch wants to be done within the hour.
INTERACTIVE = DeadlineClass(name="interactive", rank=0, ttft_s=10.0, itl_s=0.2)
BATCH = DeadlineClass(name="batch", rank=1, completion_s=3600.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RequestTrace:
    """Requests to replay. What a reader could not use is in `faults`."""

    name: str
    origin: str  # the file and its format, or how it was made
    synthetic: bool = False  # any part of it was made up, arrivals for instance
    arrival_s: Floats
    prompt_tokens: Ints
    output_tokens: Ints
    deadline_class: Ints
    tenant: Ints
    model: Ints
    classes: tuple[DeadlineClass, ...]
    tenants: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    prefix_block_tokens: int = 0  # 0: nothing is known about shared prefixes
    prefix_ids: Ints  # of all requests' prompt blocks, one after another
    prefix_start: Ints  # row r has prefix_ids[prefix_start[r] : prefix_start[r + 1]]
    faults: tuple[RowFault, ...] = ()

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def deadline_s(self) -> Floats:
        """Return when each request's first deadline is; infinite where nothing was promised."""
        after = np.array([each.urgent_s for each in self.classes], np.float64)
        deadlines: Floats = self.arrival_s + after[self.deadline_class]
        return deadlines

    def head(self, count: int) -> RequestTrace:
        """Return the first `count` requests."""
        starts = self.prefix_start[: count + 1]
        columns = {name: getattr(self, name)[:count] for name in _COLUMNS}
        return replace(self, **columns, prefix_start=starts, prefix_ids=self.prefix_ids)

    def at_rate(self, per_s: float) -> RequestTrace:
        """Return the same requests, arriving faster or slower throughout."""
        span_s = float(self.arrival_s[-1] - self.arrival_s[0]) if len(self) else 0.0
        stretch = len(self) / per_s / span_s if span_s > 0 else 1.0
        return replace(self, arrival_s=self.arrival_s * stretch, synthetic=True)

    def in_class(self, chosen: DeadlineClass) -> RequestTrace:
        """Return the same requests, all of one class."""
        return replace(self, classes=(chosen,), deadline_class=np.zeros(len(self), np.int64))

    def with_share(self, chosen: DeadlineClass, rows: NDArray[np.bool_]) -> RequestTrace:
        """Return the same requests, those of `rows` in another class."""
        names = [each.name for each in self.classes]
        classes = self.classes if chosen.name in names else (*self.classes, chosen)
        code = [each.name for each in classes].index(chosen.name)
        return replace(
            self, classes=classes, deadline_class=np.where(rows, code, self.deadline_class)
        )


_COLUMNS = ("arrival_s", "prompt_tokens", "output_tokens", "deadline_class", "tenant", "model")


def requests_of(  # noqa: PLR0913 - a trace has these columns
    name: str,
    *,
    arrival_s: Sequence[float] | Floats,
    prompt_tokens: Sequence[int] | Ints,
    output_tokens: Sequence[int] | Ints,
    classes: tuple[DeadlineClass, ...] = (INTERACTIVE,),
    deadline_class: Sequence[int] | Ints | None = None,
    tenant: Sequence[str] | None = None,
    model: Sequence[str] | None = None,
    prefix: Sequence[Sequence[int] | Ints] | None = None,
    prefix_block_tokens: int = 0,
    origin: str = "",
    synthetic: bool = False,
    faults: tuple[RowFault, ...] = (),
) -> RequestTrace:
    """Build a trace from the columns that are there; rows are sorted by arrival, stably."""
    arrival = np.asarray(arrival_s, np.float64)
    order = np.argsort(arrival, kind="stable")
    tenants, tenant_code = _coded(tenant, len(arrival))
    models, model_code = _coded(model, len(arrival))
    code = np.zeros(len(arrival)) if deadline_class is None else deadline_class
    lists = [prefix[row] for row in order] if prefix is not None else [()] * len(arrival)
    starts = np.concatenate(([0], np.cumsum([len(ids) for ids in lists]))).astype(np.int64)
    flat = np.array([block for ids in lists for block in ids], np.int64)
    columns: dict[str, Any] = {
        "arrival_s": arrival,
        "prompt_tokens": np.asarray(prompt_tokens, np.int64),
        "output_tokens": np.asarray(output_tokens, np.int64),
        "deadline_class": np.asarray(code, np.int64),
        "tenant": tenant_code,
        "model": model_code,
    }
    return RequestTrace(
        name=name,
        origin=origin,
        synthetic=synthetic,
        classes=classes,
        tenants=tenants,
        models=models,
        prefix_block_tokens=prefix_block_tokens,
        prefix_ids=np.unique(flat, return_inverse=True)[1].astype(np.int64),
        prefix_start=starts,
        faults=faults,
        **{column: values[order] for column, values in columns.items()},
    )


def merged(traces: Sequence[RequestTrace]) -> RequestTrace:
    """Return the requests of several traces in one, by arrival.

    Classes, tenants and models of the same name are the same. Prefix blocks are never shared
    between traces, and must be of one size.
    """
    if len(traces) == 1:
        return traces[0]
    sizes = {each.prefix_block_tokens for each in traces} - {0}
    assert len(sizes) <= 1, f"prefix blocks of {sorted(sizes)} tokens"  # noqa: S101
    classes = {each.name: each for trace in traces for each in trace.classes}
    codes = {name: code for code, name in enumerate(classes)}
    return requests_of(
        "+".join(each.name for each in traces),
        arrival_s=np.concatenate([each.arrival_s for each in traces]),
        prompt_tokens=np.concatenate([each.prompt_tokens for each in traces]),
        output_tokens=np.concatenate([each.output_tokens for each in traces]),
        classes=tuple(classes.values()),
        deadline_class=[
            codes[each.classes[code].name] for each in traces for code in each.deadline_class
        ],
        tenant=[name for each in traces for name in _names(each.tenants, each.tenant)],
        model=[name for each in traces for name in _names(each.models, each.model)],
        prefix=_apart(traces) if sizes else None,
        prefix_block_tokens=max(sizes, default=0),
        origin="; ".join(each.origin for each in traces),
        synthetic=any(each.synthetic for each in traces),
        faults=tuple(fault for each in traces for fault in each.faults),
    )


def _apart(traces: Sequence[RequestTrace]) -> list[Ints]:
    lists, offset = [], 0
    for each in traces:
        ids = each.prefix_ids + offset
        lists += np.split(ids[: each.prefix_start[-1]], each.prefix_start[1:-1])[: len(each)]
        offset += int(ids.max(initial=offset - 1)) + 1 - offset
    return lists


def _names(names: tuple[str, ...], codes: Ints) -> list[str]:
    return [names[code] if code >= 0 else "" for code in codes]


def _coded(values: Sequence[str] | None, count: int) -> tuple[tuple[str, ...], Ints]:
    if values is None:
        return (), np.full(count, -1, np.int64)
    known = {name: code for code, name in enumerate(dict.fromkeys(each for each in values if each))}
    return tuple(known), np.array([known.get(each, -1) for each in values], np.int64)
