"""Fits how long a model server's steps take to times that were measured.

Relative least squares with coefficients that cannot be negative; single outliers (a first step
that compiles) lose weight. The bend is searched for: everything else is linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from steward.model.serving.instance_type import StepTimes

__all__ = ["MeasuredStep", "fit_step_times", "relative_errors"]

Floats = NDArray[np.float64]
_BENDS = tuple(float(round(2 ** (4 + each / 4))) for each in range(29))  # 16 to 2,048 tokens
_OUTLIER_SHARE = 0.05  # errors beyond it count linearly, not squared
_ROUNDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStep:
    """One measured step: what it computed, and the seconds it took."""

    s: float
    prefill_tokens: float = 0.0
    decode_sequences: float = 0.0
    kv_tokens: float = 0.0
    attention_pairs: float = 0.0

    def predicted_s(self, times: StepTimes) -> float:
        """Return what a step-time model says about this step."""
        return times.step_s(
            prefill_tokens=self.prefill_tokens,
            decode_sequences=self.decode_sequences,
            kv_tokens=self.kv_tokens,
            attention_pairs=self.attention_pairs,
        )


def fit_step_times(steps: Sequence[MeasuredStep]) -> StepTimes:
    """Return the model that fits best. A kind of step that was never measured costs as `fixed_s`.

    Of bends that fit equally well, the smallest is taken.
    """
    assert steps, "nothing was measured"  # noqa: S101 - callers read a profile before
    taken_s = np.array([each.s for each in steps])
    fits = [(_solve(_design(steps, bend), taken_s), bend) for bend in _BENDS]
    (_, found), bend = min(fits, key=lambda each: each[0][0])
    fixed, prefill, token, beyond, sequence, kv, attention = (float(each) for each in found)
    return StepTimes(
        fixed_s=fixed,
        prefill_s=prefill,
        token_s=token,
        bend_tokens=bend,
        token_beyond_s=beyond,
        sequence_s=sequence,
        kv_token_s=kv,
        attention_s=attention,
    )


def relative_errors(times: StepTimes, steps: Sequence[MeasuredStep]) -> Floats:
    """Return how far off the model is at each step, as a share of what was measured."""
    return np.array([abs(each.predicted_s(times) / each.s - 1) for each in steps])


def _design(steps: Sequence[MeasuredStep], bend: float) -> Floats:
    prefill = np.array([each.prefill_tokens for each in steps])
    batch = np.array([each.decode_sequences for each in steps])
    tokens = prefill + batch
    columns = [
        np.ones(len(steps)),
        (prefill > 0).astype(np.float64),
        tokens,
        np.maximum(tokens - bend, 0.0),
        batch,
        np.array([each.kv_tokens for each in steps]),
        np.array([each.attention_pairs for each in steps]),
    ]
    return np.stack(columns, axis=1)


def _solve(design: Floats, taken_s: Floats) -> tuple[float, Floats]:
    """Return the loss (Huber's, of relative errors) and the coefficients."""
    scale = np.maximum(np.abs(design).max(axis=0), 1e-300)
    relative = design / taken_s[:, None] / scale
    weight = np.ones(len(taken_s))
    for _ in range(_ROUNDS):
        found, _ = nnls(relative * weight[:, None], weight)
        errors = np.abs(relative @ found - 1)
        weight = np.sqrt(np.minimum(1.0, _OUTLIER_SHARE / np.maximum(errors, 1e-12)))
    small = np.minimum(errors, _OUTLIER_SHARE)
    loss = float(np.sum(small * (errors - 0.5 * small)))
    return loss, found / scale
