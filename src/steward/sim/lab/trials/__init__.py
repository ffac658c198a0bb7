"""Trials: one policy on one variant of a trace, judged; many of them at once, kept by content.

Belongs here: variants, running them here or on other machines, and remembering what came out.
Does not: what a policy does, or what the figures mean.
"""

from __future__ import annotations

from steward.sim.lab.trials.cache import Cache, default_folder
from steward.sim.lab.trials.trial import (
    Failed,
    Judged,
    ReplayCharts,
    Run,
    StudyInput,
    Trial,
    run_trial,
)
from steward.sim.lab.trials.variants import natural_gpus, runnable
from steward.sim.lab.trials.workers import run_trials

__all__ = [
    "Cache",
    "Failed",
    "Judged",
    "ReplayCharts",
    "Run",
    "StudyInput",
    "Trial",
    "default_folder",
    "natural_gpus",
    "run_trial",
    "run_trials",
    "runnable",
]
