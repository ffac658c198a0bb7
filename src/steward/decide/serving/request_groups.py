"""Request groups: waiting requests that are alike, in the order in which they are served.

Groups keep the global scheduler's problem small: it orders some dozens of them, however many
requests wait.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.decide.serving.demand import Demand
from steward.model.serving.token_counters import OUTPUT_WEIGHT
from steward.model.serving.view import ServingView

__all__ = ["Groups", "fair_tags", "groups_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_GROUPS = 48  # about: so many, and one more for each kind of request
_UNSEEN_OUTPUT = 256.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Groups:
    """Members of group g are at `member[begin[g] : begin[g + 1]]`, positions in a `Demand`."""

    begin: Ints
    member: Ints
    model: Ints  # by group
    work_s: Floats  # by member place, as are the next two
    variance: Floats
    slack_s: Floats

    def __len__(self) -> int:
        return len(self.model)


def groups_of(view: ServingView, demand: Demand) -> Groups:
    """Group by model, class and length class, and by whether a request is already late.

    Inside a group requests are served by arrival, or where tenants are known in the order of
    their virtual token counters. Large groups are cut, so that several instances can share them.
    """
    requests, rows = view.requests, demand.rows
    length = np.round(2.0 * np.log2(np.maximum(demand.work_s, 1e-6))).astype(np.int64)
    keys = (length, requests.deadline_class[rows], requests.model[rows], demand.slack_s < 0)
    tags = fair_tags(view, demand)
    inner = np.arange(len(rows)) if tags is None else tags
    member = np.lexsort((inner, *keys))
    changed = np.zeros(len(rows), bool)
    changed[:1] = True
    for key in keys:
        ordered = key[member]
        changed[1:] |= ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(changed)
    most = max(1, -(-len(rows) // MOST_GROUPS))
    place = np.arange(len(rows))
    since = place - starts[np.cumsum(changed) - 1]
    begin = np.append(np.flatnonzero(since % most == 0), len(rows))
    return Groups(
        begin=begin.astype(np.int64),
        member=member.astype(np.int64),
        model=requests.model[rows[member[begin[:-1]]]],
        work_s=demand.work_s[member],
        variance=demand.variance[member],
        slack_s=demand.slack_s[member],
    )


def fair_tags(view: ServingView, demand: Demand) -> Floats | None:
    """Return a start tag for each request, None where no tenants are known.

    The tag is the tenant's counter in the class plus the tokens of its requests that go before:
    taking the smallest tag always serves the tenant that had least (VTC).
    """
    served = view.served_tokens
    if served is None or served.shape[1] < 2:
        return None
    requests, rows = view.requests, demand.rows
    tenant, code = requests.tenant[rows], requests.deadline_class[rows]
    forecasts = view.forecasts
    output = np.full(len(rows), _UNSEEN_OUTPUT)
    if forecasts is not None:
        output = forecasts.output_tokens[rows]
    tokens = requests.prompt_tokens[rows] + OUTPUT_WEIGHT * output
    order = np.lexsort((np.arange(len(rows)), tenant, code))
    before = np.cumsum(tokens[order]) - tokens[order]
    pair = code[order] * (served.shape[1] + 1) + tenant[order] + 1
    first = np.flatnonzero(np.append(True, pair[1:] != pair[:-1])[: len(pair)])
    which = np.searchsorted(first, np.arange(len(pair)), side="right") - 1
    tags = np.zeros(len(rows))
    tags[order] = before - before[first[which]] if len(first) else before
    known: Floats = tags + np.where(tenant >= 0, served[code, tenant], 0.0)
    return known
