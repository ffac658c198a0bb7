"""Spot or on demand: how a job that saves meets its deadline for the least money.

Capacity on spot comes and goes; on-demand capacity is always there and dearer; each start takes a
while. The choices of least expected cost are found by dynamic programming over (time left, work
left, what runs, whether there is spot capacity). Running out of slack is never a choice: from each
state that is reached, on-demand capacity still meets the deadline.

Plans do not use it: a choice of theirs is one queue to the end, with interruptions by `durations`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.planning.spot import Capacity, SpotJob, SpotLife

__all__ = ["SpotTable", "spot_table"]

Floats = NDArray[np.float64]
Choices = NDArray[np.int8]

_MOST_STEPS = 5000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpotTable:
    """The best choice of each state, by whole steps."""

    job: SpotJob
    step_s: float
    restart_steps: int
    choices: Choices  # (steps left, mode, whether there is spot, steps of work)
    cost: float  # expected, from the begin without capacity and with spot there
    cost_without: float  # the same with no spot there

    def choose(
        self,
        *,
        left_s: float,
        work_s: float,
        on: Capacity = Capacity.NONE,
        restarting_s: float = 0.0,
        spot_is_there: bool,
    ) -> Capacity:
        """Return what to run on until the next step.

        `restarting_s` is what is left of the start of what runs. Work is rounded up and time down.
        """
        steps = min(floor(left_s / self.step_s + 1e-9), self.choices.shape[0] - 1)
        work = ceil(work_s / self.step_s - 1e-9)
        if work <= 0:
            return Capacity.NONE
        if steps < 0 or work >= self.choices.shape[3]:
            return Capacity.ON_DEMAND
        begun = min(ceil(restarting_s / self.step_s - 1e-9), self.restart_steps)
        mode = _mode(on, begun, self.restart_steps)
        return Capacity(int(self.choices[steps, mode, int(spot_is_there), work]))


def spot_table(job: SpotJob, life: SpotLife, *, step_s: float = 360.0) -> SpotTable:
    """Return the choices of least expected cost. A deadline that cannot be met is refused."""
    steps = floor(job.deadline_s / step_s + 1e-9)
    work = ceil(job.work_s / step_s - 1e-9)
    restart = ceil(job.restart_s / step_s - 1e-9)
    if steps > _MOST_STEPS:
        raise StewardError(
            f"{steps} steps of {step_s} s until the deadline",
            where="spot",
            hint=f"take steps so long that there are at most {_MOST_STEPS}",
        )
    if work + restart > steps:
        raise StewardError(
            f"{job.work_s:.0f} s of work do not end {job.deadline_s:.0f} s from now",
            where="spot",
            hint=f"on demand at once it takes {(work + restart) * step_s:.0f} s",
        )
    modes = 1 + 2 * (restart + 1)
    lost = 1.0 - float(np.exp(-step_s / life.lasts_s))
    back = 1.0 - float(np.exp(-step_s / life.back_s))
    chances = _Chances(lost=lost, none_left=1.0 - life.elsewhere_share, back=back)
    value = np.full((modes, 2, work + 1), np.inf)
    value[:, :, 0] = 0.0
    choices = np.full((steps + 1, modes, 2, work + 1), int(Capacity.ON_DEMAND), np.int8)
    for left in range(1, steps + 1):
        value, choices[left] = _step_back(value, job, chances, restart)
    scale = step_s
    return SpotTable(
        job=job,
        step_s=step_s,
        restart_steps=restart,
        choices=choices,
        cost=float(value[0, 1, work]) * scale,
        cost_without=float(value[0, 0, work]) * scale,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chances:
    """Of one step."""

    lost: float
    none_left: float  # once lost
    back: float


def _mode(on: Capacity, restarting: int, restart: int) -> int:
    """Return the row of a mode: none, spot with so many steps to start, on demand likewise."""
    if on is Capacity.NONE:
        return 0
    return 1 + restarting + (restart + 1 if on is Capacity.ON_DEMAND else 0)


def _step_back(
    after: Floats, job: SpotJob, chances: _Chances, restart: int
) -> tuple[Floats, Choices]:
    """Return the value of each state one step earlier, and the choice that has it."""
    modes, _, works = after.shape
    gone = chances.lost * chances.none_left
    # What comes after a step without spot, by whether there was some: it comes and goes meanwhile.
    apart = np.stack(
        [
            (1.0 - chances.back) * _finite(after[:, 0]) + chances.back * _finite(after[:, 1]),
            gone * _finite(after[:, 0]) + (1.0 - gone) * _finite(after[:, 1]),
        ],
        axis=1,
    )
    on_spot = _after_spot(after, chances)
    options = np.full((3, modes, 2, works), np.inf)
    options[Capacity.NONE] = apart[0][np.newaxis]
    for mode in range(modes):
        begun = _restarting(mode, Capacity.SPOT, restart)
        options[Capacity.SPOT, mode, 1] = job.spot_price + _ran(
            on_spot, Capacity.SPOT, begun, restart
        )
        begun = _restarting(mode, Capacity.ON_DEMAND, restart)
        for there in (0, 1):
            ran = _ran(apart[:, there], Capacity.ON_DEMAND, begun, restart)
            options[Capacity.ON_DEMAND, mode, there] = job.on_demand_price + ran
    # Of equals, on demand is taken: the last choice that can still meet the deadline.
    order = (Capacity.ON_DEMAND, Capacity.SPOT, Capacity.NONE)
    ranked = options[list(order)]
    best = np.argmin(ranked, axis=0)
    value = np.take_along_axis(ranked, best[np.newaxis], axis=0)[0]
    value[:, :, 0] = 0.0
    return value, np.array(order, np.int8)[best]


def _after_spot(after: Floats, chances: _Chances) -> Floats:
    """Return what comes after a step on spot, by mode: it is kept, or lost with its start."""
    lost = chances.none_left * _finite(after[0, 0]) + (1.0 - chances.none_left) * _finite(
        after[0, 1]
    )
    kept: Floats = (1.0 - chances.lost) * _finite(after[:, 1]) + chances.lost * lost
    return kept


def _restarting(mode: int, on: Capacity, restart: int) -> int:
    """Return how many steps of its start are left if a mode goes on with this capacity."""
    first = _mode(on, 0, restart)
    return mode - first if first <= mode <= first + restart else restart


def _ran(after: Floats, on: Capacity, begun: int, restart: int) -> Floats:
    """Return what comes after a step on this capacity, by work left before it."""
    then: Floats = after[_mode(on, max(begun - 1, 0), restart)]
    return then if begun else np.concatenate([then[:1], then[:-1]])


def _finite(values: Floats) -> Floats:
    """Return them as they are; a chance of 0 times an infinite cost is counted as infinite."""
    return np.minimum(values, 1e30)
