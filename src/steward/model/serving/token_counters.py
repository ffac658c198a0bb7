"""Virtual token counters (VTC): how much service each tenant of a class had so far.

A tenant that comes back after a pause starts at the level of those that are served: it gets no
credit for the time in which it asked for nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["OUTPUT_WEIGHT", "TokenCounters"]

OUTPUT_WEIGHT = 2.0  # an output token counts as so many prompt tokens


class TokenCounters:
    """Counters by class and tenant; a gateway keeps one and shows `served` in its views."""

    def __init__(self, classes: int, tenants: int) -> None:
        self.served: NDArray[np.float64] = np.zeros((classes, tenants))
        self._present = np.zeros((classes, tenants), np.int64)

    def grow(self, classes: int, tenants: int) -> None:
        """Make room for classes and tenants that came later; nothing is forgotten."""
        there = self.served.shape
        if classes <= there[0] and tenants <= there[1]:
            return
        size = (max(classes, there[0]), max(tenants, there[1]))
        served, present = np.zeros(size), np.zeros(size, np.int64)
        served[: there[0], : there[1]] = self.served
        present[: there[0], : there[1]] = self._present
        self.served, self._present = served, present

    def arrive(self, deadline_class: int, tenant: int) -> None:
        """Count a request in; the first of a tenant lifts its counter to the least of the others'.

        Requests without a tenant (-1) are not counted.
        """
        if tenant < 0:
            return
        row, present = self.served[deadline_class], self._present[deadline_class]
        if present[tenant] == 0 and present.any():
            row[tenant] = max(row[tenant], row[present > 0].min())
        present[tenant] += 1

    def serve(self, deadline_class: int, tenant: int, *, prompt: int = 0, output: int = 0) -> None:
        """Add tokens that were computed for a tenant."""
        if tenant >= 0:
            self.served[deadline_class, tenant] += prompt + OUTPUT_WEIGHT * output

    def leave(self, deadline_class: int, tenant: int) -> None:
        """Count a request out that ended, in whatever way."""
        if tenant >= 0:
            self._present[deadline_class, tenant] -= 1
