"""Fit what operators cost, and how a GPU or a machine differs from that, on measured steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from steward.learn.estimators.model_graphs.op_times import FEATURES, KIND, KINDS, START

__all__ = ["CostFit", "MeasuredStep", "Shape", "fit_costs", "fit_offsets"]

Floats = npt.NDArray[np.float64]
OFFSET_SPREAD = (0.25, 0.25, 0.3)  # of logarithms, between GPUs and machines
_FREE = len(FEATURES)


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredStep:
    """One measured step: its ways in seconds at peak rates, its seconds, and its GPU."""

    ways: Floats
    seconds: float
    group: str


@dataclass(frozen=True, slots=True)
class Shape:
    """How a fit is made: sharpness of the maximum, pull to the start, and where errors are far."""

    sharpness: float
    pull: float
    far: float


@dataclass(frozen=True, slots=True, eq=False)
class CostFit:
    """Logarithms of costs, and of what each group takes more than they say."""

    costs: Floats
    offsets: Mapping[str, Floats]


def fit_costs(
    steps: Sequence[MeasuredStep],
    shape: Shape,
    *,
    reference: str,
    spreads: Mapping[str, Sequence[float]],
    start: Floats = START,
) -> CostFit:
    """Fit costs on all steps; the group `reference` has no offsets, others those they need."""
    groups = [name for name in sorted({each.group for each in steps}) if name != reference]
    number = {name: at for at, name in enumerate(groups)}
    at = np.array([number.get(each.group, len(groups)) for each in steps])
    widths = [np.array(spreads.get(name, OFFSET_SPREAD)) for name in groups]
    width = np.array(widths).reshape(len(groups), len(KINDS))
    ways = np.stack([each.ways for each in steps], 1)
    truth = np.log([each.seconds for each in steps])
    first = np.concatenate([start, np.zeros(width.size)])
    pull = np.concatenate([np.full(_FREE, shape.pull), (0.1 / width).ravel()])

    def parts(values: Floats) -> tuple[Floats, Floats, Floats]:
        offsets = np.zeros((len(groups) + 1, len(KINDS) + 1))
        offsets[: len(groups), : len(KINDS)] = values[_FREE:].reshape(width.shape)
        factors = np.exp(values[:_FREE] + offsets[at][:, KIND])
        each = np.einsum("wrf,rf->wr", ways, factors)
        total = (each**shape.sharpness).sum(0) ** (1 / shape.sharpness)
        return factors, each, total

    def residuals(values: Floats) -> Floats:
        return np.concatenate([np.log(parts(values)[2]) - truth, (values - first) * pull])

    def slopes(values: Floats) -> Floats:
        factors, each, total = parts(values)
        weight = (each / total) ** (shape.sharpness - 1) / total
        by_feature = np.einsum("wr,wrf->rf", weight, ways) * factors
        columns = [by_feature]
        for group in range(len(groups)):
            mine = (at == group)[:, None] * by_feature
            columns.append(np.stack([mine[:, kind == KIND].sum(1) for kind in range(3)], 1))
        return np.vstack([np.hstack(columns), np.diag(pull)])

    found = least_squares(
        residuals, first, jac=slopes, loss="soft_l1", f_scale=shape.far, max_nfev=80
    ).x
    offsets = found[_FREE:].reshape(width.shape)
    return CostFit(found[:_FREE], {name: offsets[number[name]] for name in groups})


def fit_offsets(
    steps: Sequence[MeasuredStep],
    costs: Sequence[tuple[Floats, float]],
    *,
    prior: Sequence[float] = (0.0, 0.0, 0.0),
    spread: Sequence[float] = OFFSET_SPREAD,
    noise: float = 0.05,
) -> Floats:
    """Return how a GPU differs, from a few measured steps; the prior where they do not tell."""
    ways = np.stack([each.ways for each in steps], 1)
    truth = np.log([each.seconds for each in steps])

    def predicted(offsets: Floats) -> Any:
        slower = np.array([*offsets, 0.0])[KIND]
        found = []
        for cost, sharpness in costs:
            each = ways @ np.exp(cost + slower)
            found.append(np.log((each**sharpness).sum(0)) / sharpness)
        return np.mean(found, 0)

    def residuals(offsets: Floats) -> Floats:
        pull = (offsets - np.array(prior)) / np.array(spread)
        return np.concatenate([(predicted(offsets) - truth) / noise, pull])

    return np.asarray(least_squares(residuals, np.array(prior, float), loss="soft_l1").x)
