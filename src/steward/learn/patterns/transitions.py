"""How levels and whole states follow each other from window to window: first-order models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.learn.patterns.baskets import ABSENT, Baskets
from steward.learn.patterns.idle_habits import wilson
from steward.learn.patterns.itemsets import Item, items_of

__all__ = ["GroupTransitions", "StateFlow", "group_transitions", "state_flow"]

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTransitions:
    """The transitions of one group: `counts[i, j]` windows of level i are followed by level j."""

    group: str
    levels: tuple[str, ...]
    counts: Numbers
    window_s: float

    @property
    def shares(self) -> NDArray[np.float64]:
        """Return how likely each level is next; no number where a level was never seen."""
        with np.errstate(divide="ignore", invalid="ignore"):
            shares: NDArray[np.float64] = self.counts / self.counts.sum(axis=1, keepdims=True)
        return shares

    @property
    def stay_s(self) -> NDArray[np.float64]:
        """Return how long each level lasts in the mean; infinite where it was never left."""
        left = self.counts.sum(axis=1) - np.diag(self.counts)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(left > 0, self.counts.sum(axis=1) / left * self.window_s, np.inf)

    def bounds(self, before: int, after: int) -> tuple[float, float]:
        """Return the range of a share, were windows independent; for runs it is wider."""
        cases = int(self.counts[before].sum())
        return wilson(int(self.counts[before, after]), cases) if cases else (0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFlow:
    """The most frequent whole states, and how often each gives way to another of them.

    A state is the levels of some groups together. What stays in a state is `windows`; `flow[i, j]`
    counts changes from i to j; those to and from rarer states are in the last row and column.
    """

    states: tuple[tuple[Item, ...], ...]
    windows: Numbers
    flow: Numbers


def group_transitions(baskets: Baskets) -> tuple[GroupTransitions, ...]:
    """Return the transitions of each group between directly following windows of a run."""
    ordered, same = _ordered(baskets)
    found = []
    for place, (group, names) in enumerate(zip(baskets.groups, baskets.level_names, strict=True)):
        before, after = ordered[:-1, place], ordered[1:, place]
        known = same & (before != ABSENT) & (after != ABSENT)
        pairs = before[known].astype(np.int64) * len(names) + after[known]
        counts = np.bincount(pairs, minlength=len(names) ** 2).reshape(len(names), len(names))
        found.append(
            GroupTransitions(group=group, levels=names, counts=counts, window_s=baskets.window_s)
        )
    return tuple(found)


def state_flow(
    baskets: Baskets, *, most: int = 12, groups: tuple[str, ...] | None = None
) -> StateFlow:
    """Return the flow between the most frequent states of these groups, of all by default."""
    chosen = [baskets.groups.index(group) for group in groups or baskets.groups]
    ordered, same = _ordered(baskets)
    states, state, windows = np.unique(
        ordered[:, chosen], axis=0, return_inverse=True, return_counts=True
    )
    top = np.argsort(-windows, kind="stable")[:most]
    place = np.full(len(states), len(top))
    place[top] = np.arange(len(top))
    at = place[state.ravel()]
    moved = same & (state.ravel()[:-1] != state.ravel()[1:])
    flow = np.zeros((len(top) + 1, len(top) + 1), np.int64)
    np.add.at(flow, (at[:-1][moved], at[1:][moved]), 1)
    names = tuple(baskets.groups[place] for place in chosen)
    levels = tuple(baskets.level_names[place] for place in chosen)
    return StateFlow(
        states=tuple(items_of(states[row], names, levels) for row in top),
        windows=windows[top].astype(np.int64),
        flow=flow,
    )


def _ordered(baskets: Baskets) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Return the levels by run and time, and which windows have one of their run behind them.

    A gap of more than a window and a half is a break: what happened in it is unknown.
    """
    order = np.lexsort((baskets.start_s, baskets.run))
    run, start = baskets.run[order], baskets.start_s[order]
    same = (run[:-1] == run[1:]) & (np.diff(start) <= 1.5 * baskets.window_s)
    return baskets.levels[order], same
