"""What figures of patterns are drawn from: item frequencies, co-occurrence, edges of a graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.learn.patterns.association import AssociationRules
from steward.learn.patterns.baskets import Baskets
from steward.learn.patterns.itemsets import Item, items_of

__all__ = ["CoOccurrence", "Edge", "co_occurrence", "item_frequencies", "pattern_edges"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoOccurrence:
    """In how many windows two items occur together; on the diagonal, in how many one does."""

    items: tuple[Item, ...]
    windows: int
    counts: NDArray[np.int64]

    @property
    def lift(self) -> NDArray[np.float64]:
        """Return how many times as often as if independent; no number for absent items."""
        alone = np.diag(self.counts).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            lift: NDArray[np.float64] = self.counts * self.windows / np.outer(alone, alone)
        return lift


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One arrow of the graph of patterns: a rule, as text and numbers."""

    source: str
    target: str
    support: float
    confidence: float
    lift: float


def co_occurrence(baskets: Baskets) -> CoOccurrence:
    """Return how often all pairs of items occur together."""
    items, columns = [], []
    for place, (group, names) in enumerate(zip(baskets.groups, baskets.level_names, strict=True)):
        for level, name in enumerate(names):
            items.append(Item(group=group, level=name))
            columns.append(np.packbits(baskets.levels[:, place] == level))
    counts = np.zeros((len(items), len(items)), np.int64)
    for one, mine in enumerate(columns):
        for other in range(one, len(items)):
            both = int(np.bitwise_count(mine & columns[other]).sum())
            counts[one, other] = counts[other, one] = both
    return CoOccurrence(items=tuple(items), windows=len(baskets), counts=counts)


def item_frequencies(baskets: Baskets) -> tuple[tuple[Item, int], ...]:
    """Return how many windows hold each item, the most frequent first."""
    found = [
        (Item(group=group, level=name), int(np.count_nonzero(baskets.levels[:, place] == level)))
        for place, (group, names) in enumerate(
            zip(baskets.groups, baskets.level_names, strict=True)
        )
        for level, name in enumerate(names)
    ]
    return tuple(sorted(found, key=lambda each: (-each[1], str(each[0]))))


def pattern_edges(rules: AssociationRules, *, most: int = 40) -> tuple[Edge, ...]:
    """Return the strongest rules as arrows, in the order of the rules."""
    support, confidence, lift = rules.support, rules.confidence, rules.lift
    return tuple(
        Edge(
            source=_text(rules, rules.antecedents[row]),
            target=_text(rules, rules.consequents[row]),
            support=float(support[row]),
            confidence=float(confidence[row]),
            lift=float(lift[row]),
        )
        for row in range(min(most, len(rules)))
    )


def _text(rules: AssociationRules, code: NDArray[np.uint8]) -> str:
    return ", ".join(str(item) for item in items_of(code, rules.groups, rules.level_names))
