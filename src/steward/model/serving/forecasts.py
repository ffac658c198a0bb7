"""What is expected of waiting requests, as an estimator hands it to dispatchers and scalers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

__all__ = ["ServingForecasts"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServingForecasts:
    """Columns along the requests, types and instances of a `ServingView`; valid as long as it is.

    Rows of requests are filled for those that wait and those in flight. A request's work is by how
    much it delays those that wait behind it: the seconds of an instance's time, at a full batch,
    that its remaining tokens take. What waits for the requests ahead therefore waits for the sum
    of their work, with the sum of their variances (`waits.py`).

    An instance's backlog is how long the next request sent to it has to wait until it is begun.
    Below zero it is the work that still fits into its batch before anybody has to wait.
    """

    output_tokens: Floats  # [request] expected in all
    output_sd: Floats  # [request]
    work_s: Floats  # [type, request]
    work_sd_s: Floats  # [type, request]
    first_token_s: Floats  # [type, request] from being begun to its first token
    run_s: Floats  # [type, request] from being begun to its last token, at a full batch
    bound_share: float  # calibrated: 90 % of waits are below mean * (1 + share) + sds * sd
    bound_sds: float
    # [type, request] by how much all of its kind may be off alike; empty: not at all. It adds up
    # over requests as it is, not by squares.
    work_doubt_s: Floats = field(default_factory=partial(np.zeros, (0, 0)))
    # [instance], infinite where none is served; empty where nothing is known about them
    backlog_s: Floats = field(default_factory=partial(np.zeros, 0))
    backlog_sd_s: Floats = field(default_factory=partial(np.zeros, 0))

    def upper_s(self, mean_s: Floats, sd_s: Floats) -> Floats:
        """Return what 90 % of waits with these means and standard deviations stay below."""
        bound: Floats = mean_s * (1.0 + self.bound_share) + self.bound_sds * sd_s
        return np.maximum(bound, 0.0)
