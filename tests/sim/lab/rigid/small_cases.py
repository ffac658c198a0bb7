"""Small random traces with ties on purpose, and what they are replayed on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from steward.model.machines import machines_of
from steward.model.replay import Replay
from steward.model.trace import Trace, trace_of
from steward.sim.lab.run import replay
from steward.sim.lab.settings import LabSettings

TENANTS = ("a", "b", "c")
Row = tuple[int, int, int, str]  # seconds after the one before it, duration, GPUs, tenant


def rows(
    *, gaps_s: Sequence[int] = (0, 0, 1, 5, 20), durations_s: Any = None, most_gpus: int = 16
) -> st.SearchStrategy[list[Row]]:
    """Return jobs of few sizes and lengths, so that equal ones meet."""
    sizes = [size for size in (1, 1, 2, 3, 4, 5, 6, 8, 16) if size <= most_gpus]
    lengths_s = durations_s if durations_s is not None else st.integers(1, 30)
    row = st.tuples(
        st.sampled_from(gaps_s), lengths_s, st.sampled_from(sizes), st.sampled_from(TENANTS)
    )
    return st.lists(row, min_size=1, max_size=30)


def trace_from(given: Sequence[Row], *, most_gpus: int = 16, **columns: Any) -> Trace:
    """Return the trace of these rows; who asks for more than there is gets what there is."""
    return trace_of(
        "small",
        submit_s=np.cumsum([row[0] for row in given]).astype(float),
        duration_s=[float(row[1]) for row in given],
        gpus=[float(min(row[2], most_gpus)) for row in given],
        tenant=[row[3] for row in given],
        **columns,
    )


def run(trace: Trace, gpus: int, policy: str, **settings: Any) -> Replay:
    """Replay on equal nodes of four GPUs, or count GPUs, as `placement` says."""
    return replay(trace, machines_of(gpus, gpus_per_node=4), policy, LabSettings(**settings))
