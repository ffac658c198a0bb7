"""What is known of a node that had faults: all that a decision about it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Literal

from steward.model.faults.remedies import Part, Remedy

__all__ = ["FaultCase", "Proof"]

Proof = Literal["none", "well", "bad"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultCase:
    """A node whose faults are not over, with what its history says about it.

    `remedy` is the hardest that its primary faults ask for; secondary ones never count. `together`:
    other nodes failed in the same moment, so that the cause is hardly in this one. `excess_per_day`
    is how many faults more than a normal node it is expected to have, by its posterior.
    """

    node: str
    devices: tuple[str, ...] = ()  # serial, UUID or place on the bus of what had them
    remedy: Remedy
    part: Part = Part.NONE
    since_s: float
    last_s: float  # of its newest primary fault
    previous_s: float = nan  # of the one before that, in this case
    faults: int = 1  # primary ones in this case
    known_faults: int = 1  # all that count against the node, over `known_days`
    known_days: float = 0.0
    rate_per_day: float = 0.0  # mean of the posterior
    lemon_probability: float = 0.0
    excess_per_day: float = 0.0
    together: int = 1  # nodes that failed in the same moment
    proof: Proof = "none"  # of the last diagnosis after its last fault
    proof_s: float = nan
