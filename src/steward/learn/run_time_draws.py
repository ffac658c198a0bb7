"""Draws of what is left of jobs, for playing through what comes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.learn.survival import run_time_s, share_ended

__all__ = ["draws_of_left", "uniform_draws"]

Array = NDArray[Any]
Floats = NDArray[np.float64]
_SHARED = 0.4  # of the variance: forecasts of one moment are too long or too short together


def uniform_draws(count: int, jobs: int, *, seed: int, shared: float = _SHARED) -> Floats:
    """Return uniform draws, one column for each job, of which those of a row lean the same way."""
    from scipy.special import ndtr  # noqa: PLC0415 - heavy

    random = np.random.default_rng(seed)
    common = random.standard_normal((count, 1))
    own = random.standard_normal((count, jobs))
    found: Floats = ndtr(np.sqrt(shared) * common + np.sqrt(1.0 - shared) * own)
    return found


def draws_of_left(left: Floats, ran_s: Floats, curve: Floats, uniform: Floats) -> Floats:
    """Return draws of how much longer jobs run; `left` has their chances of lasting by level.

    `curve` says what share of jobs really ended below each place of their distribution.
    """
    found = np.empty(uniform.shape)
    if found.size:
        _fill(np.ascontiguousarray(left), ran_s, curve[0], curve[1], uniform, found)
    return found


@njit
def _fill(
    left: Array, ran_s: Array, place: Array, below: Array, uniform: Array, out: Array
) -> None:
    for job in range(len(left)):
        gone = np.interp(share_ended(left[job], ran_s[job]), place, below)
        for i in range(len(out)):
            at = np.interp(gone + (1.0 - gone) * uniform[i, job], below, place)
            out[i, job] = max(run_time_s(left[job], min(at, 1.0 - 1e-9)) - ran_s[job], 1.0)
