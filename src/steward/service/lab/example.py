"""A small made-up trace, for people who want to see a comparison before they have a file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from steward.model.trace import Trace, trace_of
from steward.service.lab.comparison_request import EXAMPLE, EXAMPLE_JOBS
from steward.sim.lab.generate import fit, generate

__all__ = ["example_trace"]

DAYS, DAY_S, NOON_S = 7, 86400.0, 14 * 3600.0
TEAMS, TEAM_SHARES = ("vision", "speech", "biology", "robotics"), (0.35, 0.25, 0.2, 0.2)
SIZES, SIZE_SHARES = (1.0, 2.0, 4.0, 8.0), (0.6, 0.2, 0.15, 0.05)
LARGE_TEAMS = 2  # only these ask for eight GPUs: a small team's quota could not hold such a job
# Half of the jobs run below twenty minutes, one in a hundred for a day, as on shared clusters.
MEDIAN_S, SPREAD, LONGEST_S = 1200.0, 1.9, 1.5 * DAY_S


def example_trace(seed: int = 0) -> Trace:
    """Return a week of four teams: full days, empty nights, many short jobs. All made up."""
    dice = np.random.default_rng(seed)
    jobs = EXAMPLE_JOBS
    team = dice.choice(len(TEAMS), jobs, p=TEAM_SHARES)
    gpus = dice.choice(SIZES, jobs, p=SIZE_SHARES)
    pattern = trace_of(
        EXAMPLE,
        submit_s=np.sort(dice.integers(0, DAYS, jobs) * DAY_S + dice.normal(NOON_S, 9000.0, jobs)),
        duration_s=np.clip(dice.lognormal(np.log(MEDIAN_S), SPREAD, jobs), 10.0, LONGEST_S),
        gpus=np.where(team < LARGE_TEAMS, gpus, np.minimum(gpus, SIZES[-2])),
        tenant=[TEAMS[i] for i in team],
        synthetic=True,
    )
    return replace(generate(fit(pattern), jobs=jobs, seed=seed), name=EXAMPLE)
