"""Jobs on generated spot capacity: what policies cost, and what knowing the future would cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from steward.model.planning.spot import Capacity

__all__ = ["SpotMoment", "SpotTrial", "generated_capacity", "offline_cost", "run_on_spot"]

Floats = NDArray[np.float64]
Capacities = NDArray[np.bool_]
Choose = Callable[["SpotMoment"], tuple[Capacity, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotTrial:
    """A job in whole steps; prices are per step, on demand is 1."""

    work: int
    deadline: int
    restart: int
    spot_price: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotMoment:
    """What a policy sees before each step: nothing of the future."""

    left: int  # steps to the deadline
    work: int  # steps of work left
    on: Capacity
    zone: int  # that it runs in; -1: none
    restarting: int  # steps until it computes
    there: tuple[int, ...]  # zones that have capacity now


def generated_capacity(
    seed: int, *, zones: int, steps: int, step_s: float, lives: Literal["memoryless", "heavy"]
) -> Capacities:
    """Return whether each zone has capacity in each step.

    As recorded for V100s in nine zones: a zone has capacity 17 to 91 % of the time; it comes and
    goes in hours. `heavy`: spells have a log-normal length (sigma 1), so long ones go on.
    """
    random = np.random.default_rng(seed)
    there = np.zeros((zones, steps), np.bool_)
    for zone in range(zones):
        share = random.uniform(0.17, 0.91)
        cycle_s = 8 * 3600.0 * np.exp(0.6 * random.standard_normal())
        means = {True: share * cycle_s, False: (1.0 - share) * cycle_s}
        state = bool(random.random() < share)
        at = -random.uniform(0.0, 50 * 3600.0)
        while at < steps * step_s:
            mean = means[state]
            drawn = (
                random.exponential(mean)
                if lives == "memoryless"
                else mean * np.exp(random.standard_normal() - 0.5)
            )
            end = at + max(drawn, step_s)
            there[zone, int(max(at, 0.0) / step_s) : int(max(end, 0.0) / step_s)] = state
            at, state = end, not state
    return there


def run_on_spot(trial: SpotTrial, there: Capacities, choose: Choose) -> tuple[float, bool]:
    """Return what a job costs that a policy places step by step, and whether it ends in time."""
    cost, work, on, zone, restarting = 0.0, trial.work, Capacity.NONE, -1, 0
    for step in range(min(trial.deadline, there.shape[1])):
        if on is Capacity.SPOT and not there[zone, step]:
            on, zone, restarting = Capacity.NONE, -1, 0
        seen = SpotMoment(
            left=trial.deadline - step,
            work=work,
            on=on,
            zone=zone,
            restarting=restarting,
            there=tuple(np.nonzero(there[:, step])[0].tolist()),
        )
        wanted, where = choose(seen)
        if wanted is not on or where != zone:
            on, zone, restarting = wanted, where, trial.restart
        if on is Capacity.NONE:
            continue
        cost += trial.spot_price if on is Capacity.SPOT else 1.0
        if restarting:
            restarting -= 1
        else:
            work -= 1
            if work == 0:
                return cost, True
    return cost, False


def offline_cost(trial: SpotTrial, there: Capacities) -> float:
    """Return the least cost, all availability known in advance; by dynamic programming."""
    places: Sequence[int] = range(len(there) + 1)  # the last is on demand
    rows = trial.restart + 1
    value = np.full((1 + rows * len(places), trial.work + 1), np.inf)
    value[:, 0] = 0.0
    for step in range(trial.deadline - 1, -1, -1):
        best = np.repeat(value[:1], len(value), axis=0)
        for place in places:
            on_spot = place < len(there)
            if on_spot and not there[place, step]:
                continue
            lost = on_spot and step + 1 < trial.deadline and not there[place, step + 1]
            price = trial.spot_price if on_spot else 1.0
            first = 1 + place * rows
            after = [_after(value, first, begun, lost=lost) for begun in range(rows)]
            best = np.minimum(best, price + after[-1])
            for begun in range(rows):
                best[first + begun] = np.minimum(best[first + begun], price + after[begun])
        best[:, 0] = 0.0
        value = best
    return float(value[0, trial.work])


def _after(value: Floats, first: int, begun: int, *, lost: bool) -> Floats:
    """Return what comes after a step in a place whose start has `begun` steps left."""
    after: Floats = value[0 if lost else first + max(begun - 1, 0)]
    return after if begun else np.concatenate([after[:1], after[:-1]])
