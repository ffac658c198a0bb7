"""The Pareto front: choices that no other beats in end, money and carbon at once."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from steward.model.planning.plan import Choice

__all__ = ["Front", "beaten", "front_of", "money_of"]

Floats = NDArray[np.float64]
Front = tuple[list[int], dict[int, int]]
USD = "USD"


def money_of(choice: Choice) -> tuple[str, float]:
    """Return what it costs, and in which unit: the site's own one where that has no price.

    Carbon that nobody knows counts as the worst; units without a price are compared with the same
    units alone, and with what costs nothing.
    """
    if choice.usd is not None:
        return USD, choice.usd.mid
    unit, amount = next(iter(choice.units.items()))
    return (unit, amount) if amount > 0 else (USD, 0.0)


def front_of(choices: Sequence[Choice]) -> Front:
    """Return the places of those on the front, and for each other one who beats it.

    Of equals the first stays.
    """
    money = [money_of(each) for each in choices]
    figures = np.array(
        [
            (each.end_s.mid, amount, inf if each.co2_kg is None else each.co2_kg.mid)
            for each, (_, amount) in zip(choices, money, strict=True)
        ],
        np.float64,
    ).reshape(-1, 3)
    units = np.array([unit for unit, _ in money])
    priced = np.flatnonzero(units == USD)
    kept, beaten_by = _sweep(figures, priced)
    free = [i for i in kept if figures[i, 1] == 0]
    for unit in sorted({*units.tolist()} - {USD}):
        own = np.flatnonzero(units == unit)
        also, losers = _sweep(figures, np.concatenate([np.array(free, np.intp), own]))
        kept += [i for i in also if units[i] == unit]
        beaten_by |= losers
    return sorted(kept), beaten_by


def beaten(first: Choice, second: Choice) -> bool:
    """Return True if the first beats the second, or equals it."""
    kept, _ = front_of((first, second))
    return kept == [0]


def _sweep(figures: Floats, places: NDArray[np.intp]) -> Front:
    """Go on from the earliest end: what is left first is beaten by nothing."""
    ranked = figures[places]
    order = np.lexsort((places, ranked[:, 2], ranked[:, 1], ranked[:, 0]))
    left = places[order]
    kept: list[int] = []
    beaten_by: dict[int, int] = {}
    while len(left):
        best = int(left[0])
        kept.append(best)
        rest = left[1:]
        worse = (figures[rest] >= figures[best]).all(axis=1)
        beaten_by |= dict.fromkeys(rest[worse].tolist(), best)
        left = rest[~worse]
    return kept, beaten_by
