"""How long a job will run, from what is known when it is submitted, by boosted trees.

What tables of similar jobs (`learn/experience.py`) cannot do: put sizes, tenants, models and the
time of the day together where no job was quite the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from steward.model.trace import Trace

__all__ = ["BoostedDurations"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FEWEST = 400  # jobs that must have ended before trees say more than a mean
DAY_S = 86_400.0


class BoostedDurations:
    """Learns from jobs that have ended, anew whenever four times as many have."""

    def __init__(self, trace: Trace) -> None:
        from sklearn.ensemble import HistGradientBoostingRegressor  # noqa: PLC0415 - heavy

        self._trees: Any = HistGradientBoostingRegressor(
            max_iter=12, max_leaf_nodes=16, learning_rate=0.3, random_state=0
        )
        self._known = _columns(trace)
        self._log_s = np.log1p(trace.duration_s)
        self._learned_from = 0

    def learns(self, ended: Ints) -> bool:
        """Return whether it is time to learn from these jobs."""
        return len(ended) >= max(FEWEST, 4 * self._learned_from)

    def learn(self, ended: Ints, jobs: Ints) -> Floats:
        """Learn from jobs that have ended and return how long (s) those asked about will run."""
        self._learned_from = len(ended)
        with threadpool_limits(limits=1):  # so that sums do not depend on the number of cores
            self._trees.fit(self._known[ended], self._log_s[ended])
        if not len(jobs):
            return np.zeros(0)
        found: Floats = np.expm1(np.maximum(self._trees.predict(self._known[jobs]), 0.0))
        return found


def _columns(trace: Trace) -> Floats:
    """Return what is known of each job when it comes; -1 says that something is not."""
    return np.column_stack(
        (
            trace.gpus,
            trace.tenant,
            trace.user,
            trace.model,
            np.nan_to_num(trace.batch, nan=-1.0),
            trace.priority,
            trace.submit_s % DAY_S,
            trace.submit_s // DAY_S % 7,
        )
    ).astype(np.float64)
