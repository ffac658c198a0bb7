"""Paired comparisons: difference with its interval, effect size, exact tests, Holm's correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

__all__ = ["Pairs", "holm", "paired_test"]

EXACT_PAIRS = 14  # 2^14 sign changes are counted; more are drawn
DRAWS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """The same measurement of the same cases, ours and theirs."""

    name: str
    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    unit: str = ""
    lower_is_better: bool = True


def paired_test(pairs: Pairs) -> dict[str, Any]:
    """Return what the pairs show. Fewer than two pairs show nothing, which is said."""
    ours, theirs = np.array(pairs.ours, np.float64), np.array(pairs.theirs, np.float64)
    if len(ours) != len(theirs):
        message = f"{pairs.name}: {len(ours)} and {len(theirs)} values are no pairs"
        raise ValueError(message)
    found: dict[str, Any] = {**_named(pairs), "pairs": len(ours)}
    if len(ours) < 2:
        return {**found, "shown": False, "why": "fewer than two pairs"}
    change = ours - theirs
    mean, spread = float(change.mean()), float(change.std(ddof=1))
    half = float(stats.t.ppf(0.975, len(change) - 1)) * spread / len(change) ** 0.5
    return {
        **found,
        "ours_mean": float(ours.mean()),
        "theirs_mean": float(theirs.mean()),
        "difference": {"low": mean - half, "mid": mean, "high": mean + half},
        "effect_size_dz": mean / spread if spread else None,
        "p_sign_changes": sign_change_p(change),
        "least_p_possible": 2.0 ** (1 - len(change)),
    }


def sign_change_p(change: NDArray[np.float64]) -> float:
    """Return the two-sided probability of such a mean if each sign were a coin's.

    Exact for few pairs. Nothing about the distribution is assumed but its symmetry.
    """
    change = change[change != 0.0]
    if not len(change):
        return 1.0
    if len(change) <= EXACT_PAIRS:
        signs = np.array(list(product((1.0, -1.0), repeat=len(change))))
    else:
        draw = np.random.default_rng(0)
        signs = draw.choice((1.0, -1.0), size=(DRAWS, len(change)))
        signs[0] = 1.0  # what was seen is one of them: no p of 0
    sums = np.abs(signs @ change)
    return float(np.mean(sums >= abs(change.sum()) * (1 - 1e-12)))


def holm(found: Sequence[Mapping[str, Any]], *, level: float = 0.05) -> list[dict[str, Any]]:
    """Return the tests with p-values that hold for all of them together."""
    tested = [index for index, each in enumerate(found) if "p_sign_changes" in each]
    order = sorted(tested, key=lambda index: float(found[index]["p_sign_changes"]))
    adjusted: dict[int, float] = {}
    largest = 0.0
    for rank, index in enumerate(order):
        p = float(found[index]["p_sign_changes"])
        largest = max(largest, min(1.0, p * (len(order) - rank)))
        adjusted[index] = largest
    return [
        {**each, "p_holm": adjusted[index], "shown": adjusted[index] <= level}
        if index in adjusted
        else dict(each)
        for index, each in enumerate(found)
    ]


def _named(pairs: Pairs) -> dict[str, Any]:
    kept = asdict(pairs)
    return {key: kept[key] for key in ("name", "unit", "lower_is_better")}
