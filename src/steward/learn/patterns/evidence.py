"""Runs that show a pattern and runs that do not: what a rule made of it is tested on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.learn.patterns.baskets import ABSENT, Baskets
from steward.learn.patterns.compared_runs import Sides
from steward.learn.patterns.itemsets import Item
from steward.learn.patterns.run_counts import run_counts, windows_per_run

__all__ = ["code_of", "example_runs"]

_MOST = 3  # of each kind


def code_of(baskets: Baskets, items: Sequence[Item]) -> NDArray[np.uint8]:
    """Return items as a row of levels."""
    code = np.full(len(baskets.groups), ABSENT, np.uint8)
    for item in items:
        group = baskets.groups.index(item.group)
        code[group] = baskets.level_names[group].index(item.level)
    return code


def example_runs(baskets: Baskets, items: Sequence[Item], sides: Sides) -> dict[str, Any]:
    """Return the runs of the target with the pattern most often, and others that never have it."""
    windows = windows_per_run(baskets)
    counts = run_counts(baskets, code_of(baskets, items)[None])[0]
    shares = np.where(windows > 0, counts / np.maximum(windows, 1), 0.0)
    with_it = [int(run) for run in np.argsort(-shares, kind="stable") if sides.is_target[run]]
    without = np.flatnonzero(sides.is_other & (windows > 0) & (counts == 0))
    longest = without[np.argsort(-windows[without], kind="stable")]
    return {
        "firing": [_run(baskets, run) for run in with_it[:_MOST] if counts[run]],
        "silent": [_run(baskets, int(run)) for run in longest[:_MOST]],
    }


def _run(baskets: Baskets, run: int) -> dict[str, Any]:
    start = baskets.start_s[baskets.run == run]
    return {
        "run": baskets.runs[run],
        "from_s": float(start.min()),
        "to_s": float(start.max()) + baskets.window_s,
    }
