"""Runs of an application with a known law, for tests of estimators and campaigns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steward.model.campaign import Campaign, Configuration, MeasuredRun, Parameter

__all__ = ["CAMPAIGN", "law_s", "measured"]

CAMPAIGN = Campaign(
    name="stencil",
    command=("./stencil", "{n}", "{steps}", "{mode}"),
    parameters=(
        Parameter(name="n", full=(256, 384), small=(16, 32, 64)),
        Parameter(name="steps", full=(1000,), small=(50, 100, 200)),
        Parameter(name="mode", full=("fast", "slow")),
    ),
    work=("n**2 * steps",),
)


def law_s(run: Configuration) -> float:
    """Return the true time: a start, and work that costs twice as much in one mode."""
    n, steps = float(run["n"]), float(run["steps"])
    return 0.5 + 2e-6 * n**2 * steps * (2.0 if run["mode"] == "slow" else 1.0)


def measured(
    runs: Sequence[Configuration], *, seed: int = 0, noise: float = 0.05
) -> list[MeasuredRun]:
    """Return runs as they would have been measured, with noise in log time."""
    rng = np.random.default_rng(seed)
    return [
        MeasuredRun(
            configuration=run,
            full=CAMPAIGN.is_full(run),
            seconds=law_s(run) * float(np.exp(noise * rng.standard_normal())),
            memory_bytes=1e6 * float(run["n"]),
        )
        for run in runs
    ]
