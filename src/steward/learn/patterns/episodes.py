"""Serial episodes: does B begin within so many seconds of A, and oftener than by chance?

Chance is what B does after any window of the same run. Per run, the surplus is the number of As
that B follows, less the As times the share of windows that B follows; the runs' scatter gives the
significance, so that one long run does not decide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.errors import StewardError
from steward.learn.patterns.baskets import Baskets
from steward.learn.patterns.event_lists import event_lists
from steward.learn.patterns.itemsets import Item
from steward.learn.patterns.significance import Control, adjusted, clustered_p

__all__ = ["Episodes", "find_episodes"]

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]
_MOST_ITEMS = 2_000  # pairs of more do not fit into memory
_FEWEST = 5  # times that A has to begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Episodes:
    """Pairs of items, the most significant first: B begins within `within_s` after A began."""

    items: tuple[Item, ...]
    within_s: float
    first: Numbers  # places in `items`
    then: Numbers
    times: Numbers  # A began
    followed: Numbers
    expected: Floats
    runs: Numbers  # in which it was followed at least once
    p_values: Floats
    q_values: Floats
    tested: int

    def __len__(self) -> int:
        return len(self.first)

    @property
    def lift(self) -> Floats:
        """Return how many times as often as by chance."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.expected > 0, self.followed / self.expected, np.nan)


def find_episodes(
    baskets: Baskets, within_s: float, *, q: float = 0.05, control: Control = Control.BH
) -> Episodes:
    """Return the pairs of two groups that follow each other oftener than by chance."""
    if not within_s > 0:
        hint = "10 means: within ten seconds"
        raise StewardError(f"nothing happens within {within_s:g} s", where="episodes", hint=hint)
    events = event_lists(baskets, every_moment=True)
    if len(events.items) > _MOST_ITEMS:
        problem = f"{len(events.items):,} items are too many for all pairs"
        hint = f"at most {_MOST_ITEMS:,}: take fewer groups or levels"
        raise StewardError(problem, where="episodes", hint=hint)
    many = len(events.items)
    times = np.bincount(events.item, minlength=many)
    followed = np.zeros((many, many), np.int64)
    runs = np.zeros((many, many), np.int64)
    sums = np.zeros((2, many, many), np.float64)  # of surplus, and of its square
    _follow(
        (events.moments_from, events.when_s, events.items_from, events.item),
        within_s, followed, runs, sums,
    )  # fmt: skip
    group = np.unique([item.group for item in events.items], return_inverse=True)[1]
    tried = (times[:, None] >= _FEWEST) & (group[:, None] != group[None, :]) & (followed > 0)
    first, then = np.nonzero(tried)
    total, squares = sums[0][tried], sums[1][tried]
    p_values = clustered_p(total, squares, events.runs)
    q_values = adjusted(p_values, control)
    kept = np.flatnonzero(q_values <= q)
    kept = kept[np.lexsort((-total[kept], p_values[kept]))]
    return Episodes(
        items=events.items,
        within_s=within_s,
        first=first[kept],
        then=then[kept],
        times=times[first[kept]],
        followed=followed[tried][kept],
        expected=followed[tried][kept] - total[kept],
        runs=runs[tried][kept],
        p_values=p_values[kept],
        q_values=q_values[kept],
        tested=len(first),
    )


@njit
def _follow(  # noqa: C901 - one loop, compiled
    lists: tuple[Numbers, Floats, Numbers, NDArray[np.int32]],
    within_s: float,
    followed: Numbers,
    runs: Numbers,
    sums: Floats,
) -> None:
    """Add to `followed`, `runs` and `sums` what each run shows.

    By chance an A would be followed as often as the windows of the run at which no A began: those
    at which it did would hide what they show.
    """
    moments_from, when_s, items_from, item = lists
    many = len(followed)
    next_s = np.empty(many)
    covered = np.empty(many)  # moments that the item follows
    mine = np.empty((many, many), np.int64)
    own = np.empty(many, np.int64)
    for run in range(len(moments_from) - 1):
        begin, end = moments_from[run], moments_from[run + 1]
        if begin == end:
            continue
        next_s[:] = np.inf
        covered[:] = 0
        mine[:] = 0
        own[:] = 0
        for moment in range(end - 1, begin - 1, -1):
            soon = next_s - when_s[moment] <= within_s
            covered += soon
            for i in range(items_from[moment], items_from[moment + 1]):
                own[item[i]] += 1
                mine[item[i]] += soon
            for i in range(items_from[moment], items_from[moment + 1]):
                next_s[item[i]] = when_s[moment]
        for a in range(many):
            others = end - begin - own[a]
            if own[a] == 0 or others == 0:
                continue
            for b in range(many):
                surplus = mine[a, b] - own[a] * (covered[b] - mine[a, b]) / others
                followed[a, b] += mine[a, b]
                runs[a, b] += mine[a, b] > 0
                sums[0, a, b] += surplus
                sums[1, a, b] += surplus * surplus
