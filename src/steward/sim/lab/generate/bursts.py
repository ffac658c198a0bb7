"""Jobs that were submitted together: the same tenant and size, one after the other.

Public traces have no job names; jobs in a burst are as near as they come to "the same job again".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.model.trace import Trace

__all__ = ["BURST_GAP_S", "bursts"]

BURST_GAP_S = 60.0  # jobs of one burst follow within this


def bursts(trace: Trace) -> NDArray[np.int64]:
    """Return, per job, the number of its burst; numbers follow the first submission."""
    order = np.lexsort((trace.submit_s, trace.gpus, trace.tenant))
    tenant, gpus, submit_s = trace.tenant[order], trace.gpus[order], trace.submit_s[order]
    again = np.zeros(len(trace), np.bool_)
    again[1:] = (np.diff(tenant) == 0) & (np.diff(gpus) == 0) & (np.diff(submit_s) <= BURST_GAP_S)
    label = np.empty(len(trace), np.int64)
    label[order] = np.cumsum(~again) - 1
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    number: NDArray[np.int64] = rank[inverse.reshape(-1)]
    return number
