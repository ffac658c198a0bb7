"""Runs that show a pattern and runs that do not: what a rule made of it is tested on."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.learn.patterns.baskets import ABSENT, Baskets
from steward.learn.patterns.compared_runs import Sides
from steward.learn.patterns.event_lists import EventLists
from steward.learn.patterns.itemsets import Item

__all__ = ["example_runs", "sequence_examples"]

_MOST = 5  # of each kind
_AROUND = 20  # windows before and after what shows the pattern
_SILENT = 200  # windows of a run that does not show it


def example_runs(baskets: Baskets, items: Sequence[Item], sides: Sides) -> dict[str, Any]:
    """Return where runs of the target show the pattern longest, and others that never do."""
    code = _code_of(baskets, items)
    held = ((baskets.levels == code) | (code == ABSENT)).all(axis=1)
    stretches = sorted(_stretches(baskets, held), key=lambda each: each[0] - each[1])
    firing: dict[int, dict[str, Any]] = {}
    for first, last in stretches:
        run = int(baskets.run[first])
        if sides.is_target[run] and run not in firing and len(firing) < _MOST:
            firing[run] = _part(baskets, run, baskets.start_s[first], baskets.start_s[last])
    with_it = np.bincount(baskets.run[held], minlength=len(baskets.runs)) > 0
    silent = np.flatnonzero(sides.is_other & ~with_it)
    return {"firing": [*firing.values()], "silent": _silent(baskets, silent)}


def sequence_examples(
    baskets: Baskets, events: EventLists, steps: Sequence[int], max_gap_s: float = inf
) -> dict[str, Any]:
    """Return where steps follow each other soonest, and runs in which they never do."""
    spans = {
        run: found
        for run in range(events.runs)
        if (found := _shortest(events, run, steps, max_gap_s)) is not None
    }
    soonest = sorted(spans, key=lambda run: spans[run][1] - spans[run][0])[:_MOST]
    seen = np.bincount(baskets.run, minlength=len(baskets.runs)) > 0
    silent = np.array([run for run in np.flatnonzero(seen) if int(run) not in spans], np.int64)
    return {
        "firing": [_part(baskets, run, *spans[run]) for run in soonest],
        "silent": _silent(baskets, silent),
    }


def _code_of(baskets: Baskets, items: Sequence[Item]) -> NDArray[np.uint8]:
    code = np.full(len(baskets.groups), ABSENT, np.uint8)
    for item in items:
        group = baskets.groups.index(item.group)
        code[group] = baskets.level_names[group].index(item.level)
    return code


def _stretches(baskets: Baskets, held: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the first and the last window of each stretch of one run."""
    places = np.flatnonzero(held)
    if not len(places):
        return []
    cut = np.flatnonzero((np.diff(places) > 1) | (np.diff(baskets.run[places]) != 0)) + 1
    return [(int(each[0]), int(each[-1])) for each in np.split(places, cut)]


def _shortest(
    events: EventLists, run: int, steps: Sequence[int], max_gap_s: float
) -> tuple[float, float] | None:
    """Return when the steps begin and end where they follow each other soonest."""
    best: tuple[float, float] | None = None
    # per step: when it was last reached, and the start that led there
    reached: list[tuple[float, float] | None] = [None] * len(steps)
    for moment in range(events.moments_from[run], events.moments_from[run + 1]):
        when = float(events.when_s[moment])
        items = events.item[events.items_from[moment] : events.items_from[moment + 1]]
        for place in reversed(range(len(steps))):  # so that no moment counts for two steps
            if steps[place] not in items:
                continue
            before = reached[place - 1] if place else (when, when)
            if before is not None and when - before[0] <= max_gap_s:
                reached[place] = (when, before[1])
        end = reached[-1]
        if end is None or end[0] != when:
            continue
        if best is None or when - end[1] < best[1] - best[0]:
            best = (end[1], when)
    return best


def _silent(baskets: Baskets, runs: NDArray[np.int64]) -> list[dict[str, Any]]:
    windows = np.bincount(baskets.run, minlength=len(baskets.runs))
    longest = runs[np.argsort(-windows[runs], kind="stable")][:_MOST]
    parts = []
    for run in longest.tolist():
        start = float(baskets.start_s[baskets.run == run].min())
        parts.append(_part(baskets, run, start, start + _SILENT * baskets.window_s))
    return parts


def _part(baskets: Baskets, run: int, first_s: float, last_s: float) -> dict[str, Any]:
    """Return a part of a run with what is around it, within the run."""
    start, around_s = baskets.start_s[baskets.run == run], _AROUND * baskets.window_s
    return {
        "run": baskets.runs[run],
        "from_s": float(max(start.min(), first_s - around_s)),
        "to_s": float(min(start.max(), last_s + around_s) + baskets.window_s),
        "shows_s": float(last_s - first_s),
    }
