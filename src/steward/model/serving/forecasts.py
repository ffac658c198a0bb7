"""What is expected of waiting requests, as an estimator hands it to dispatchers and scalers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["ServingForecasts"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServingForecasts:
    """Columns along the requests and types of a `ServingView`; valid during the call, as it is.

    A request's work is by how much it delays those that wait behind it: the seconds of an
    instance's time, at a full batch, that its remaining tokens take. What waits for the requests
    ahead therefore waits for the sum of their work, with the sum of their variances.
    """

    output_tokens: Floats  # [request] expected in all
    output_sd: Floats  # [request]
    work_s: Floats  # [type, request]
    work_sd_s: Floats  # [type, request]
    first_token_s: Floats  # [type, request] from being begun to its first token
    run_s: Floats  # [type, request] from being begun to its last token, at a full batch
    bound_share: float  # calibrated: 90 % of waits are below mean * (1 + share) + sds * sd
    bound_sds: float

    def upper_s(self, mean_s: Floats, sd_s: Floats) -> Floats:
        """Return what 90 % of waits with these means and standard deviations stay below."""
        bound: Floats = mean_s * (1.0 + self.bound_share) + self.bound_sds * sd_s
        return np.maximum(bound, 0.0)
