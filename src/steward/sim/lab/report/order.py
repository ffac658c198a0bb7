"""In which order policies are shown, and which of many stand out."""

from __future__ import annotations

import numpy as np

from steward.sim.lab.compare import Comparison

__all__ = ["COLOURED", "highlighted", "ranked"]

COLOURED = 8  # policies with a colour of their own in one picture
OURS = "commons"


def ranked(comparison: Comparison) -> list[str]:
    """Return the policies, shortest mean completion time first; unfinished work goes behind."""
    figures = comparison.figures

    def key(name: str) -> tuple[float, float, str]:
        mean = figures[name]["jct_mean_s"]
        return figures[name]["unfinished"], mean if np.isfinite(mean) else np.inf, name

    return sorted(figures, key=key)


def highlighted(comparison: Comparison, order: list[str], most: int) -> list[str]:
    """Return the policies that get a colour: the baseline, ours, and the best of the rest."""
    first = [name for name in (comparison.baseline, OURS) if name in order]
    rest = [name for name in order if name not in first]
    chosen = {*first[:most], *rest[: max(0, most - len(first))]}
    return [name for name in order if name in chosen]
