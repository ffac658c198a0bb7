"""What really happened: the schedule that a trace was recorded with, as a replay."""

from __future__ import annotations

import numpy as np

from steward.errors import StewardError
from steward.model.machines import Machines
from steward.model.replay import Replay, Segments
from steward.model.trace import Trace
from steward.sim.lab.settings import LabSettings

__all__ = ["AS_RECORDED", "knows_its_starts", "replay_as_recorded"]

AS_RECORDED = "as-recorded"


def knows_its_starts(trace: Trace) -> bool:
    """Return True if a trace says when each of its jobs started."""
    return len(trace) > 0 and bool((trace.start_s >= trace.submit_s).all())


def replay_as_recorded(trace: Trace, machines: Machines, settings: LabSettings) -> Replay:
    """Return the recorded schedule. No policy is called, and nothing is limited to `machines`."""
    if not knows_its_starts(trace):
        raise StewardError(
            "the trace does not say when its jobs started, or their arrivals were changed",
            where=trace.name,
            hint="sacct's Start, or a column wait_s, says it",
        )
    n, order = len(trace), np.argsort(trace.start_s, kind="stable")
    end_s = trace.start_s + trace.duration_s
    return Replay(
        policy=AS_RECORDED,
        trace=trace,
        machines=machines,
        quota=settings.quota_of(trace, machines),
        start_s=trace.start_s,
        end_s=end_s,
        preemptions=np.zeros(n, np.int64),
        lost_s=np.zeros(n),
        segments=Segments(
            job=order,
            start_s=trace.start_s[order],
            stop_s=end_s[order],
            gpus=trace.gpus[order],
            node=np.full(n, -1, np.int64),
            nodes=np.zeros(n, np.int64),
            speed=np.ones(n),
        ),
        cpu_s=0.0,
        decisions=0,
        notes=(f"{AS_RECORDED} is what the site did, on its own machines",),
    )
