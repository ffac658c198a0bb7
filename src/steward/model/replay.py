"""What a policy made of a trace. Every engine of the lab hands on this, and nothing else.

All measures (waiting, fairness, energy, …) follow from it; `sim/lab/judge.py` computes them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.model.machines import Machines
from steward.model.trace import Trace

__all__ = ["Replay", "Segments"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Segments:
    """Spans of time in which one job ran unchanged, in the order in which they began."""

    job: Ints  # row of the trace
    start_s: Floats
    stop_s: Floats
    gpus: Floats  # held in this span; 0.25 is a quarter of one
    node: Ints  # the first node; -1 where GPUs were only counted
    nodes: Ints  # how many nodes it spanned; 0 where GPUs were only counted
    speed: Floats  # work done per second, 1 = alone at the size asked for, best placement

    def __len__(self) -> int:
        return len(self.job)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replay:
    """One run of one policy over one trace. Rows are those of the trace."""

    policy: str
    trace: Trace
    machines: Machines
    quota: Floats  # GPUs guaranteed to each tenant of the trace
    start_s: Floats  # first start; NaN: never
    end_s: Floats  # NaN: not finished
    preemptions: Ints
    lost_s: Floats  # run time that went into saving, restoring and doing work twice
    segments: Segments
    cpu_s: float  # of the replay itself
    decisions: int  # how often the policy was asked
    notes: tuple[str, ...] = ()  # e.g. jobs that fit on no machine
