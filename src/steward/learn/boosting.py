"""Job durations predicted at submission by boosted trees.

Unlike tables of similar jobs (`learn/experience.py`), trees combine sizes, tenants, models and the
time of the day where no job was quite the same.
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

FEWEST = 400  # ended jobs before trees are better than a mean
DAY_S = 86_400.0


class BoostedDurations:
    """Learn from ended jobs; retrain whenever four times as many have ended."""

    def __init__(self, trace: Trace) -> None:
        from sklearn.ensemble import HistGradientBoostingRegressor  # noqa: PLC0415 - heavy

        self._trees: Any = HistGradientBoostingRegressor(
            max_iter=12, max_leaf_nodes=16, learning_rate=0.3, random_state=0
        )
        self._known = _columns(trace)
        self._log_s = np.log1p(trace.duration_s)
        self._learned_from = 0

    def learns(self, ended: Ints) -> bool:
        """Return whether training on these jobs is due."""
        return len(ended) >= max(FEWEST, 4 * self._learned_from)

    def learn(self, ended: Ints, jobs: Ints) -> Floats:
        """Train on ended jobs and return the predicted durations (s) of `jobs`."""
        self._learned_from = len(ended)
        with threadpool_limits(limits=1):  # so that sums do not depend on the number of cores
            self._trees.fit(self._known[ended], self._log_s[ended])
        if not len(jobs):
            return np.zeros(0)
        found: Floats = np.expm1(np.maximum(self._trees.predict(self._known[jobs]), 0.0))
        return found


def _columns(trace: Trace) -> Floats:
    """Return the features of each job at submission; -1 marks unknown ones."""
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
