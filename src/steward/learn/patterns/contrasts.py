"""Emerging patterns: what one kind of run does oftener than the others, and how surely.

Runs are the unit. The share of its windows in which a run has a pattern is one observation; whether
it is among the runs that have it most, or least, is what Fisher's exact test compares between
labels, and what labels are permuted against. Patterns are chosen for the test without looking at
labels, so that the number of tests is known and the corrections hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.learn.patterns.baskets import ABSENT, Baskets
from steward.learn.patterns.compared_runs import Sides
from steward.learn.patterns.itemsets import (
    Item,
    ItemCounts,
    Kind,
    baskets_of,
    frequent_itemsets,
    items_of,
    selected,
)
from steward.learn.patterns.layers import layers_of
from steward.learn.patterns.run_counts import run_counts, windows_per_run
from steward.learn.patterns.significance import Control, adjusted, fisher_greater

__all__ = ["Contrast", "ContrastSearch", "Contrasts", "find_contrasts"]

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
_MOST_CELLS = 100_000_000  # patterns times runs, 13 bytes each
_MOST_EXAMINED = 2_000  # of the significant patterns, the strongest
_MOST_KEPT = 50
_LEFT = 0.1  # of the windows of a side, so that what is left of them says something


@dataclass(frozen=True, slots=True, kw_only=True)
class ContrastSearch:
    """Which contrasts are wanted. `q` is the share of false ones among them that is accepted."""

    share: float = 0.01  # of all windows: rarer patterns are not tested
    longest: int = 3  # items
    q: float = 0.05
    growth: float = 1.5  # at least so many times as often, or as seldom
    control: Control = Control.BH
    permutations: int = 1_000
    seed: int = 0
    fewest_runs: int = 3  # of a side
    redundant: bool = False  # keep also patterns that follow from stronger ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """A pattern that the runs of the target have oftener, or more seldom, than the others."""

    items: tuple[Item, ...]
    layers: tuple[str, ...]
    share: float  # mean over the target's runs of the share of windows with it
    share_elsewhere: float
    runs: int  # of the target, with it at least once
    runs_elsewhere: int
    auroc: float  # how likely a run of the target has it oftener than another run
    p_value: float
    q_value: float
    family_p: float  # how likely any pattern looks so strong when run labels are permuted
    covers: int  # weaker patterns that follow from it, and are left out

    @property
    def growth(self) -> float:
        """Return how many times as often; infinite where others never have it."""
        return self.share / self.share_elsewhere if self.share_elsewhere else float("inf")

    @property
    def difference(self) -> float:
        return self.share - self.share_elsewhere

    @property
    def crosses_layers(self) -> bool:
        return len(self.layers) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrasts:
    """What tells the target from the others, the strongest first."""

    target: str
    against: str
    target_runs: int
    other_runs: int
    tested: int
    significant: int  # before redundant ones were left out
    found: tuple[Contrast, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tests:
    """All that was tested: patterns x runs, and what came out per pattern."""

    codes: NDArray[np.uint8]
    shares: Floats  # patterns x runs
    means: tuple[Floats, Floats]
    effects: Floats  # the difference of means, in units of its error (Welch's t)
    p_values: Floats
    q_values: Floats
    family_p: Floats


def find_contrasts(
    baskets: Baskets,
    sides: Sides,
    search: ContrastSearch | None = None,
    *,
    counts: ItemCounts | None = None,
    progress: Callable[[str], None] = lambda _what: None,
) -> Contrasts:
    """Return what runs of the target have oftener or more seldom than the others.

    Runs on neither side only count for which patterns are frequent.
    """
    search = search or ContrastSearch()
    windows = windows_per_run(baskets)
    target, other = sides.is_target & (windows > 0), sides.is_other & (windows > 0)
    _refuse_few(sides, target, other, search)
    progress("frequent itemsets")
    codes = _candidates(baskets, search, counts)
    chosen = target | other
    _refuse_many(len(codes), int(chosen.sum()))
    progress(f"{len(codes):,} patterns in {int(chosen.sum()):,} runs")
    shares = run_counts(baskets, codes)[:, chosen] / windows[chosen]
    tests = _tests(codes, shares, target[chosen], search, progress)
    significant = _significant(tests, search)
    kept, covers = significant, dict.fromkeys(significant, 0)
    if not search.redundant:
        kept, covers = _unexplained(baskets, tests, significant, (target, other))
    return Contrasts(
        target=sides.target,
        against=sides.against,
        target_runs=int(target.sum()),
        other_runs=int(other.sum()),
        tested=len(codes),
        significant=len(significant),
        found=tuple(_contrast(baskets, tests, row, target[chosen], covers[row]) for row in kept),
    )


def _refuse_few(sides: Sides, target: Flags, other: Flags, search: ContrastSearch) -> None:
    few = [
        f"'{name}' has {int(side.sum())}"
        for name, side in ((sides.target, target), (sides.against, other))
        if side.sum() < search.fewest_runs
    ]
    if few:
        raise StewardError(
            f"too few runs to compare: {', '.join(few)}",
            where="labels",
            hint=f"each side needs at least {search.fewest_runs} runs; windows of one run are not "
            "independent",
        )


def _refuse_many(patterns: int, runs: int) -> None:
    if patterns * runs > _MOST_CELLS:
        raise StewardError(
            f"{patterns:,} patterns in {runs:,} runs are too many to test",
            where="contrasts",
            hint="ask for a larger support or fewer items",
        )


def _candidates(
    baskets: Baskets, search: ContrastSearch, counts: ItemCounts | None
) -> NDArray[np.uint8]:
    """Return closed patterns of all windows together: labels have no part in the choice."""
    short = frequent_itemsets(baskets, search.share, counts, longest=search.longest)
    return selected(short, Kind.CLOSED).codes


def _tests(
    codes: NDArray[np.uint8],
    shares: Floats,
    target: Flags,
    search: ContrastSearch,
    progress: Callable[[str], None],
) -> _Tests:
    most, least, p_values = _split_test(shares, target)
    progress(f"{search.permutations:,} permutations of run labels")
    mine, others = shares[:, target], shares[:, ~target]
    error = np.sqrt(
        mine.var(axis=1, ddof=1) / mine.shape[1] + others.var(axis=1, ddof=1) / others.shape[1]
    )
    return _Tests(
        codes=codes,
        shares=shares,
        means=(mine.mean(axis=1), others.mean(axis=1)),
        effects=(mine.mean(axis=1) - others.mean(axis=1)) / np.maximum(error, 1e-12),
        p_values=p_values,
        q_values=adjusted(p_values, search.control),
        family_p=_family_p((most, least), target, p_values, search),
    )


def _split_test(shares: Floats, target: Flags) -> tuple[Flags, Flags, Floats]:
    """Return which runs have each pattern most and least, and Fisher's p of the target's share.

    As many runs as the target has are most, or least: if all are the target's, p is the smallest
    that so few runs can show. Both directions are tested.
    """
    size = int(np.count_nonzero(target))
    if not 0 < size < len(target):
        nothing = np.zeros(shares.shape, np.bool_)
        return nothing, nothing, np.ones(len(shares))
    ordered = np.sort(shares, axis=1)
    most, least = shares > ordered[:, [-size - 1]], shares < ordered[:, [size]]
    sizes = np.full(len(shares), size)
    p_values = np.minimum(
        *(
            fisher_greater(side[:, target].sum(axis=1), side.sum(axis=1), sizes, len(target))
            for side in (most, least)
        )
    )
    return most, least, np.minimum(1.0, 2 * p_values)


def _family_p(
    splits: tuple[Flags, Flags], target: Flags, p_values: Floats, search: ContrastSearch
) -> Floats:
    """Return how often the smallest p of all patterns is as small under permuted run labels."""
    if not len(p_values) or not search.permutations:
        return np.full(len(p_values), np.nan)
    rng = np.random.default_rng(search.seed)
    drawn = rng.permuted(np.tile(target, (search.permutations, 1)), axis=1).astype(np.float32)
    smallest = np.ones(search.permutations)
    step = max(1, 20_000_000 // search.permutations)
    for flags in splits:
        many, kind = np.unique(flags.sum(axis=1), return_inverse=True)
        table = _fisher_table(many, int(target.sum()), len(target))
        for start in range(0, len(flags), step):
            rows = slice(start, start + step)
            both = np.rint(flags[rows].astype(np.float32) @ drawn.T).astype(np.int64)
            smallest = np.minimum(smallest, table[kind[rows, None], both].min(axis=0))
    smallest = np.sort(np.minimum(1.0, 2 * smallest))
    smaller = np.searchsorted(smallest, p_values * (1 + 1e-9), side="right")
    return np.asarray((1 + smaller) / (1 + search.permutations), np.float64)


def _fisher_table(many: Numbers, size: int, runs: int) -> Floats:
    """Return the one-sided p for each number of flagged runs, and of these within the target."""
    both = np.arange(size + 1)
    grid_many, grid_both = np.repeat(many, len(both)), np.tile(both, len(many))
    sizes = np.full(len(grid_many), size)
    return fisher_greater(grid_both, grid_many, sizes, runs).reshape(len(many), len(both))


def _significant(tests: _Tests, search: ContrastSearch) -> list[int]:
    """Return the rows that pass, the strongest first."""
    here, elsewhere = tests.means
    less, more = np.minimum(here, elsewhere), np.maximum(here, elsewhere)
    passes = (tests.q_values <= search.q) & (more >= search.growth * less)
    rows = np.flatnonzero(passes)
    lengths = np.count_nonzero(tests.codes[rows] != ABSENT, axis=1)
    order = np.lexsort((lengths, -np.abs(tests.effects[rows])))
    return [int(row) for row in rows[order]]


def _unexplained(
    baskets: Baskets, tests: _Tests, rows: list[int], sides: tuple[Flags, Flags]
) -> tuple[list[int], dict[int, int]]:
    """Return patterns that the stronger ones do not explain, and how many each one explains.

    Windows with a kept pattern are taken away; what does not differ in the rest follows from it.
    """
    kept: list[int] = []
    covers: dict[int, int] = {}
    rest = rows[:_MOST_EXAMINED]
    limit = float(np.max(tests.p_values[rows], initial=0.0))
    while rest and len(kept) < _MOST_KEPT:
        row, *rest = rest
        kept.append(row)
        code = tests.codes[row]
        without = ~((baskets.levels == code) | (code == ABSENT)).all(axis=1)
        if _much_is_left(baskets, without, sides):
            baskets = baskets_of(baskets, without)
            differs = _differs(baskets, tests.codes[rest], sides, limit)
        else:  # it is nearly all that one side does: only its parts and extensions follow
            differs = [not _is_related(code, tests.codes[each]) for each in rest]
        covers[row] = sum(not each for each in differs)
        rest = [each for each, still in zip(rest, differs, strict=True) if still]
    return kept, covers


def _much_is_left(baskets: Baskets, kept: Flags, sides: tuple[Flags, Flags]) -> bool:
    return all(
        np.count_nonzero(side[baskets.run] & kept) >= _LEFT * np.count_nonzero(side[baskets.run])
        for side in sides
    )


def _is_related(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> bool:
    same = one == other
    return bool((same | (one == ABSENT)).all() or (same | (other == ABSENT)).all())


def _differs(
    baskets: Baskets, codes: NDArray[np.uint8], sides: tuple[Flags, Flags], limit: float
) -> list[bool]:
    windows = windows_per_run(baskets)
    chosen = (sides[0] | sides[1]) & (windows > 0)
    shares = run_counts(baskets, codes)[:, chosen] / windows[chosen]
    return [bool(p <= limit) for p in _split_test(shares, sides[0][chosen])[2]]


def _contrast(baskets: Baskets, tests: _Tests, row: int, target: Flags, covers: int) -> Contrast:
    shares = tests.shares[row]
    items = items_of(tests.codes[row], baskets.groups, baskets.level_names)
    return Contrast(
        items=items,
        layers=layers_of(item.group for item in items),
        share=float(tests.means[0][row]),
        share_elsewhere=float(tests.means[1][row]),
        runs=int(np.count_nonzero(shares[target])),
        runs_elsewhere=int(np.count_nonzero(shares[~target])),
        auroc=_auroc(shares[target], shares[~target]),
        p_value=float(tests.p_values[row]),
        q_value=float(tests.q_values[row]),
        family_p=float(tests.family_p[row]),
        covers=covers,
    )


def _auroc(mine: Floats, others: Floats) -> float:
    """Return how likely a random one of mine is larger than a random other; ties count half."""
    ordered = np.sort(others)
    below = np.searchsorted(ordered, mine, side="left").sum()
    up_to = np.searchsorted(ordered, mine, side="right").sum()
    return float((below + up_to) / (2 * len(mine) * len(others)))
