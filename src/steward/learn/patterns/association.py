"""Association rules: what goes with what, how strongly, and whether by more than chance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from steward.learn.patterns.baskets import ABSENT, Baskets
from steward.learn.patterns.itemsets import Itemsets, exact_share
from steward.learn.patterns.run_counts import run_counts, windows_per_run
from steward.learn.patterns.significance import Control, adjusted, clustered_p, fisher_greater

__all__ = ["AssociationRules", "RuleSearch", "Unit", "find_associations"]

Codes = NDArray[np.uint8]
Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]
_AT_ONCE = 50_000_000  # windows times rules, and rules times runs, per piece of work


class Unit(Enum):
    """What counts as one observation. Windows of one run are not independent; runs are."""

    RUNS = "runs"
    WINDOWS = "windows"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSearch:
    """Which rules are wanted.

    `improvement` is how much confidence the items of a rule have to add to that of each shorter
    rule with the same consequent.
    """

    confidence: float = 0.8
    most_consequents: int = 1
    improvement: float = 0.05
    redundant: bool = False  # keep also rules that a shorter one says already
    unit: Unit = Unit.RUNS
    control: Control = Control.BH


@dataclass(frozen=True, slots=True, kw_only=True)
class AssociationRules:
    """Rules as rows of two itemsets. Counts are of windows; shares follow from them."""

    groups: tuple[str, ...]
    level_names: tuple[tuple[str, ...], ...]
    windows: int
    antecedents: Codes
    consequents: Codes
    both: Numbers
    antecedent: Numbers  # windows with it
    consequent: Numbers
    runs: Numbers  # with both at least once
    p_values: Floats
    q_values: Floats
    tested: int  # rules of that confidence; significance counts them all, redundant ones too

    def __len__(self) -> int:
        return len(self.both)

    @property
    def support(self) -> Floats:
        return self.both / self.windows

    @property
    def confidence(self) -> Floats:
        return self.both / self.antecedent

    @property
    def lift(self) -> Floats:
        """Return how many times as often as if both were independent."""
        return (self.both * self.windows) / (self.antecedent * self.consequent.astype(np.float64))

    @property
    def leverage(self) -> Floats:
        """Return the share of windows beyond what independence would give."""
        expected = self.antecedent.astype(np.float64) * self.consequent / self.windows
        return (self.both - expected) / self.windows

    @property
    def conviction(self) -> Floats:
        """Return how many times as often the rule would be wrong by chance; infinite if never."""
        wrong = (self.antecedent - self.both).astype(np.float64)
        chance = self.antecedent * ((self.windows - self.consequent) / self.windows)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(wrong > 0, chance / wrong, np.inf)

    def taken(self, rows: Numbers | NDArray[np.bool_]) -> AssociationRules:
        """Return some of them."""
        return AssociationRules(
            groups=self.groups,
            level_names=self.level_names,
            windows=self.windows,
            antecedents=self.antecedents[rows],
            consequents=self.consequents[rows],
            both=self.both[rows],
            antecedent=self.antecedent[rows],
            consequent=self.consequent[rows],
            runs=self.runs[rows],
            p_values=self.p_values[rows],
            q_values=self.q_values[rows],
            tested=self.tested,
        )


def find_associations(
    itemsets: Itemsets, baskets: Baskets, search: RuleSearch | None = None
) -> AssociationRules:
    """Return the rules in all frequent itemsets of some baskets, the largest leverage first."""
    search = search or RuleSearch()
    rules = _confident(itemsets, search)
    rules = _tested(rules, baskets, search)
    if not search.redundant:
        rules = rules.taken(_adds_confidence(rules, search.improvement))
    return rules.taken(np.lexsort((-rules.lift, -rules.leverage)))


def _confident(itemsets: Itemsets, search: RuleSearch) -> AssociationRules:
    """Return all rules of enough confidence, compared as whole numbers; not tested yet."""
    share = exact_share(search.confidence)
    rows, antecedents, consequents = [], [], []
    for places, row in _splits(itemsets, search.most_consequents):
        then = np.full((len(row), len(itemsets.groups)), ABSENT, np.uint8)
        then[:, places] = itemsets.codes[row][:, places]
        given = itemsets.codes[row].copy()
        given[:, places] = ABSENT
        before = itemsets.counts[itemsets.places_of(given)]
        enough = itemsets.counts[row] * share.denominator >= before * share.numerator
        rows.append(row[enough])
        antecedents.append(given[enough])
        consequents.append(then[enough])
    none = np.empty((0, len(itemsets.groups)), np.uint8)
    row = np.concatenate([np.empty(0, np.int64), *rows])
    given, then = np.concatenate([none, *antecedents]), np.concatenate([none, *consequents])
    unknown = np.full(len(row), np.nan)
    return AssociationRules(
        groups=itemsets.groups,
        level_names=itemsets.level_names,
        windows=itemsets.windows,
        antecedents=given,
        consequents=then,
        both=itemsets.counts[row],
        antecedent=itemsets.counts[itemsets.places_of(given)],
        consequent=itemsets.counts[itemsets.places_of(then)],
        runs=np.zeros(len(row), np.int64),
        p_values=unknown,
        q_values=unknown,
        tested=len(row),
    )


def _splits(itemsets: Itemsets, most: int) -> Iterator[tuple[list[int], Numbers]]:
    """Yield places of consequents, and the itemsets that have items there and elsewhere."""
    lengths, held = itemsets.lengths, itemsets.codes != ABSENT
    for many in range(1, most + 1):
        for places in combinations(range(len(itemsets.groups)), many):
            row = np.flatnonzero(held[:, places].all(axis=1) & (lengths > many))
            if len(row):
                yield list(places), row


def _tested(rules: AssociationRules, baskets: Baskets, search: RuleSearch) -> AssociationRules:
    """Return the rules with their significance and with the runs that they occur in."""
    runs = np.zeros(len(rules), np.int64)
    p_values = np.full(len(rules), np.nan)
    pieces = max(1, _AT_ONCE // max(1, len(baskets.runs)))
    for start in range(0, len(rules), pieces):
        rows = slice(start, start + pieces)
        surplus, found = _surplus(rules, baskets, rows)
        runs[rows] = np.count_nonzero(found, axis=1)
        total, squares = surplus.sum(axis=1), (surplus**2).sum(axis=1)
        p_values[rows] = clustered_p(total, squares, len(baskets.runs))
    if search.unit is Unit.WINDOWS:
        p_values = fisher_greater(rules.both, rules.antecedent, rules.consequent, rules.windows)
    return AssociationRules(
        groups=rules.groups,
        level_names=rules.level_names,
        windows=rules.windows,
        antecedents=rules.antecedents,
        consequents=rules.consequents,
        both=rules.both,
        antecedent=rules.antecedent,
        consequent=rules.consequent,
        runs=runs,
        p_values=p_values,
        q_values=adjusted(p_values, search.control),
        tested=rules.tested,
    )


def _surplus(
    rules: AssociationRules, baskets: Baskets, rows: slice
) -> tuple[Floats, NDArray[np.int32]]:
    """Return per run the windows with both beyond independence, and those with both.

    Each run's sum of (A - share of A)(C - share of C): they add up to what leverage is made of.
    """
    given, then = rules.antecedents[rows], rules.consequents[rows]
    sides, place = np.unique(np.concatenate([given, then]), axis=0, return_inverse=True)
    counted = run_counts(baskets, sides)[place]
    before, after = counted[: len(given)], counted[len(given) :]
    both = run_counts(baskets, np.minimum(given, then))
    share_before = (rules.antecedent[rows] / rules.windows)[:, None]
    share_after = (rules.consequent[rows] / rules.windows)[:, None]
    surplus = (
        both
        - share_after * before
        - share_before * after
        + share_before * share_after * windows_per_run(baskets)
    )
    return surplus, both


def _adds_confidence(rules: AssociationRules, improvement: float) -> NDArray[np.bool_]:
    """Return which rules say more than each shorter one with the same consequent."""
    confidence = rules.confidence
    best: dict[bytes, dict[bytes, float]] = {}  # of each consequent: antecedents kept
    kept = np.zeros(len(rules), np.bool_)
    lengths = np.count_nonzero(rules.antecedents != ABSENT, axis=1)
    for row in np.lexsort((-confidence, lengths)).tolist():
        known = best.setdefault(rules.consequents[row].tobytes(), {})
        code = rules.antecedents[row]
        if all(confidence[row] >= known[part] + improvement for part in _parts_in(code, known)):
            known[code.tobytes()] = float(confidence[row])
            kept[row] = True
    return kept


def _parts_in(code: Codes, known: dict[bytes, float]) -> Iterator[bytes]:
    """Yield the proper subsets of an itemset that are known."""
    places = np.flatnonzero(code != ABSENT).tolist()
    for many in range(len(places)):
        for gone in combinations(places, len(places) - many):
            part = code.copy()
            part[list(gone)] = ABSENT
            if part.tobytes() in known:
                yield part.tobytes()
