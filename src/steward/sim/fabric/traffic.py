"""What is sent: bundles of flows with their links, and the programs of jobs that send them.

A bundle is flows in lockstep, such as those of a ring: all have one rate. Its `weight` on a link is
how many of them cross it. A flow by itself is a bundle of one. A bundle may have several variants,
of which adaptive routing takes the least loaded when it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["LATENCY", "SEND", "Bundle", "Job", "Phase", "Traffic"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Codes of Phase.kind.
SEND, LATENCY = range(2)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bundle:
    """Flows that begin together and have one rate. `variants` are links, with repeats counted."""

    volume: float  # bytes of each flow
    variants: tuple[Ints, ...]
    flows: int = 1
    limit: float = float("inf")  # bytes a second of each flow, whatever the links allow
    per_node: int = 1  # how many of its flows the busiest of its nodes sends


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Phase:
    """One part of a step: bundles that are sent together, or messages one after another."""

    bundles: tuple[Bundle, ...] = ()
    messages: float = 0.0
    paths: tuple[Ints, ...] = ()  # of messages: each takes as long as the slowest of these
    kind: int = SEND


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """Steps of computing and communicating; `overlap` of the computing hides communication."""

    name: str
    compute_s: float
    phases: tuple[Phase, ...]
    overlap: float = 0.0
    begin_s: float = 0.0
    steps: int = 2**62


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Traffic:
    """All of it: jobs, and flows of their own that begin at given times."""

    jobs: Sequence[Job] = ()
    flows: Sequence[Bundle] = ()
    begin_s: Floats = field(default_factory=lambda: np.zeros(0))  # of flows, ascending
