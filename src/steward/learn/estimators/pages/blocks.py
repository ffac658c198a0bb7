"""The page estimators in the loop's port: columns along the blocks of a process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.learn.estimators.pages.migration import PageMigration
from steward.model.forecast import About, Forecast, ForecastColumn
from steward.model.job import JobRequest
from steward.model.memory.moment import (
    ARM_DRAWS,
    ARM_REWARDS,
    BLOCK_ACCESSES,
    NEW_BLOCKS,
    MemoryMoment,
)
from steward.model.outcome import Outcome

__all__ = ["BlockMigration"]

Floats = NDArray[np.float64]


@dataclass(slots=True, kw_only=True)
class BlockMigration:
    """Learns from each moment of a process, and from what was moved after the one before."""

    pages: PageMigration = field(default_factory=PageMigration)
    name: str = "page-migration"
    state_version: int = 1

    def learn(self, view: MemoryMoment, _: Sequence[Outcome] = ()) -> None:
        """Take in one moment; nothing where the process could not be read."""
        if view.moved is not None and view.before is not None:
            self.pages.took(view.before, view.moved)
        if not view.unknown:
            self.pages.learn(view.view)

    def predict(self, view: MemoryMoment) -> tuple[ForecastColumn, ...]:
        """Return expected accesses of each block, and what is believed of each arm."""
        found = self.pages.predict(view.view)
        arms = found.arms
        if arms is None:
            return ()
        new = np.array([found.saved_s, found.new_pages, found.new_accesses])
        return (
            self._column(BLOCK_ACCESSES, found.accesses),
            self._column(NEW_BLOCKS, new),
            self._column(ARM_REWARDS, arms.mean, arms.deviation),
            self._column(ARM_DRAWS, arms.drawn),
        )

    def _column(
        self, quantity: str, mid: Floats, deviation: Floats | None = None
    ) -> ForecastColumn:
        half = np.zeros(len(mid)) if deviation is None else deviation
        return ForecastColumn(
            about=About.WHOLE,
            quantity=quantity,
            low=mid - half,
            mid=mid,
            high=mid + half,
            basis=self.name,
        )

    def estimate(self, _: JobRequest) -> tuple[Forecast, ...]:
        """Return nothing: it is about processes that run."""
        return ()

    def save_state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return self.pages.save_state()

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state. Raise on one that does not fit."""
        self.pages.restore_state(state)
