"""How long waiting requests wait, given their order, the instances, and what is expected of both.

Pure arithmetic over a view and its forecasts: each request begins on the instance whose backlog is
over first, and adds its work to that backlog.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.model.serving.forecasts import ServingForecasts
from steward.model.serving.view import DRAINING, OFF, STARTING, ServingView

__all__ = ["ExpectedWaits", "backlogs", "expected_waits"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_FIRST_TOKEN_SD = 0.5  # the time from being begun to the first token is off by this share of it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExpectedWaits:
    """One row per request, in the order that was assumed; infinite where no instance serves it."""

    requests: Ints  # rows of the view
    instance: Ints  # row of the view's instances, then of those added; -1: none
    begin_s: Floats  # from now until it is begun
    mean_s: Floats  # from now until its first token
    sd_s: Floats
    upper_s: Floats  # 90 % of waits are shorter


def expected_waits(
    view: ServingView,
    order: Ints | None = None,
    *,
    assigned: Ints | None = None,
    added: tuple[tuple[int, float], ...] = (),
    without: tuple[int, ...] = (),
) -> ExpectedWaits:
    """Return how long each request of `order` (the queue, without one) waits from now on.

    `assigned` is an instance for each of them, -1 for any. `added` are instances that do not exist
    yet: the position of a type, and in how many seconds it serves. `without` are rows of instances
    that take nothing more. The view must have forecasts.
    """
    forecasts = view.forecasts
    assert forecasts is not None, "the view has no forecasts"  # noqa: S101 - callers look first
    rows = view.queue if order is None else np.asarray(order, np.int64)
    clock, variance = backlogs(view, forecasts)
    clock[list(without)] = np.inf
    kinds = np.concatenate((view.instances.type, [each[0] for each in added])).astype(np.int64)
    clock = np.concatenate((clock, [each[1] for each in added]))
    variance = np.concatenate((variance, np.zeros(len(added))))
    serves = np.array([view.models.index(each.model) for each in view.types], np.int64)
    models = np.concatenate((view.instances.model, serves[kinds[len(view.instances) :]]))
    places = np.full(len(rows), -1, np.int64) if assigned is None else assigned
    doubt_s = forecasts.work_doubt_s if len(forecasts.work_doubt_s) else 0.0 * forecasts.work_s
    found = np.full((3, len(rows)), np.inf)
    instance = np.full(len(rows), -1, np.int64)
    _begin_in_order(
        (rows, view.requests.model, places.astype(np.int64)),
        (clock, variance, kinds, models.astype(np.int64)),
        (forecasts.work_s, forecasts.work_sd_s, doubt_s, forecasts.first_token_s),
        (instance, found),
    )
    begin_s, mean_s, sd_s = found
    return ExpectedWaits(
        requests=rows,
        instance=instance,
        begin_s=begin_s,
        mean_s=mean_s,
        sd_s=sd_s,
        upper_s=np.maximum(forecasts.upper_s(mean_s, sd_s), mean_s),
    )


def backlogs(view: ServingView, forecasts: ServingForecasts) -> tuple[Floats, Floats]:
    """Return the backlog of each instance in seconds and its variance, infinite where it is off.

    Where the estimator does not know them, an instance that has room is taken as empty, others as
    just full, and those that start as if they had just begun to.
    """
    instances = view.instances
    if len(forecasts.backlog_s) == len(instances):
        clock = forecasts.backlog_s.astype(np.float64)
        variance = forecasts.backlog_sd_s**2
    else:
        start_s = np.array([each.start_s for each in view.types])
        starting = instances.state == STARTING
        clock = np.where(starting, start_s[instances.type], 0.0)
        variance = np.zeros(len(instances))
    clock[(instances.state == OFF) | (instances.state == DRAINING)] = np.inf
    return clock, variance


@njit
def _begin_in_order(
    asked: tuple[Ints, Ints, Ints],
    instances: tuple[Floats, Floats, Ints, Ints],
    expected: tuple[Floats, Floats, Floats, Floats],
    found: tuple[Ints, Floats],
) -> None:
    """Begin requests one after another, each where the backlog is over first."""
    rows, model, assigned = asked
    clock, variance, kinds, models = instances
    work_s, work_sd_s, work_doubt_s, first_token_s = expected
    doubt_s = np.zeros(len(clock))
    instance, times = found
    for place in range(len(rows)):
        r = rows[place]
        chosen = -1
        for i in range(len(clock)):
            if models[i] != model[r] or (assigned[place] >= 0 and assigned[place] != i):
                continue
            if clock[i] < np.inf and (chosen < 0 or clock[i] < clock[chosen]):
                chosen = i
        instance[place] = chosen
        if chosen < 0:
            times[2, place] = 0.0
            continue
        kind = kinds[chosen]
        spread_s = math.sqrt(variance[chosen] + doubt_s[chosen] ** 2)
        begin_s, sd_s = positive_part(clock[chosen], spread_s)
        times[0, place] = begin_s
        times[1, place] = begin_s + first_token_s[kind, r]
        times[2, place] = math.hypot(sd_s, _FIRST_TOKEN_SD * first_token_s[kind, r])
        clock[chosen] += work_s[kind, r]
        variance[chosen] += work_sd_s[kind, r] ** 2
        doubt_s[chosen] += work_doubt_s[kind, r]


@njit
def positive_part(mean: float, sd: float) -> tuple[float, float]:
    """Return mean and standard deviation of max(0, x) for a normal x."""
    if sd < 1e-9 * abs(mean) + 1e-12:
        return max(mean, 0.0), sd if mean > 0 else 0.0
    z = mean / sd
    below = 0.5 * math.erfc(z / math.sqrt(2.0))
    density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    first = max(mean * (1.0 - below) + sd * density, 0.0)
    second = (mean * mean + sd * sd) * (1.0 - below) + mean * sd * density
    return first, math.sqrt(max(second - first * first, 0.0))
