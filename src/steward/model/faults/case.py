"""What is known of a node that had faults: all that a decision about it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

from steward.model.faults.remedies import Part, Remedy

__all__ = ["FaultCase"]

_WELL_FOR_BAD = 3  # tests that have to pass for one that did not


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
    tests_well: int = 0  # diagnoses since its last fault, and since it was last mended
    tests_bad: int = 0
    tested_s: float = nan  # when the last of them was
    swapped_s: float = nan  # when the driver last named another GPU at a place of this node

    @property
    def is_proven(self) -> bool:
        """Return whether its tests say that the node is well."""
        return self.tests_well >= max(1, _WELL_FOR_BAD * self.tests_bad)
