"""Windows as rows, metric groups as columns, one level in each cell: what mining starts from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError

__all__ = ["ABSENT", "Baskets"]

ABSENT = 255  # no level: the group was not measured in this window


@dataclass(frozen=True, slots=True, kw_only=True)
class Baskets:
    """One row per window of one run, ordered by run and time.

    `levels[w, g]` is a place in `level_names[g]`, or `ABSENT`. An item is one (group, level).
    """

    groups: tuple[str, ...]
    level_names: tuple[tuple[str, ...], ...]  # per group, from low to high
    levels: NDArray[np.uint8]  # windows x groups
    runs: tuple[str, ...]
    run: NDArray[np.int32]  # per window, a place in `runs`
    start_s: NDArray[np.float64]  # per window
    window_s: float
    labels: tuple[str, ...] = ()  # per run, its kind or outcome; empty where nothing is known

    def __post_init__(self) -> None:
        windows = len(self.levels)
        fits = (
            self.levels.shape == (windows, len(self.groups))
            and len(self.level_names) == len(self.groups)
            and len(self.run) == len(self.start_s) == windows
            and len(self.labels) in {0, len(self.runs)}
        )
        if not fits:
            problem = f"baskets of {self.levels.shape} do not fit {len(self.groups)} groups"
            raise StewardError(problem, where="baskets", hint="one row per window of a run")

    def __len__(self) -> int:
        return len(self.levels)
