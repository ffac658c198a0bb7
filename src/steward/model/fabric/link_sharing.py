"""How much slower jobs become by sharing links: a mean field over the time each one sends.

A job meets the others of a link only for the share of time that they send (their duty), which
again depends on how fast they are. Fixed point by damped rounds; each round costs one pass over
the entries. The law of one link is that of max-min fairness: flows get equal parts of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.model.fabric.contention import Contention, alone_rate, iteration_s

__all__ = ["Sharing", "always_on", "share_links", "share_links_without"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROUNDS = 60
_DAMPING = 0.5
_NONE = -1
_SETTLED = 1e-6


class Sharing(NamedTuple):
    """What sharing does to each job."""

    slowdown: Floats  # iteration time against that without the others; at least 1
    rate: Floats  # bytes/s of a flow
    duty: Floats  # share of the time that it sends
    bottleneck: Ints  # the link that sets its speed; -1: its own limit
    load: Floats  # of each link: flows times duty


@njit
def share_links(scene: Contention) -> Sharing:
    """Return slowdown, rate, duty and bottleneck of each job, and the load of each link."""
    return _settle(scene, _NONE)


@njit
def share_links_without(scene: Contention, absent: int) -> Sharing:
    """Return the same as if one job were not there; its own values are those alone."""
    return _settle(scene, absent)


@njit
def _settle(scene: Contention, absent: int) -> Sharing:
    jobs = len(scene.compute_s)
    alone = alone_rate(scene)
    duty, rate = np.zeros(jobs), np.zeros(jobs)
    limit = np.full(jobs, _NONE)
    load, sending = np.zeros(len(scene.capacity)), np.zeros(len(scene.capacity))
    for each in range(ROUNDS):
        _loads(scene, duty, absent, (load, sending))
        moved = 0.0
        for job in range(jobs):
            rate[job], limit[job] = _rate(scene, job, duty[job], (load, sending))
            period = iteration_s(scene, job, rate[job])
            new = min(1.0, scene.volume_bytes[job] / rate[job] / period) if period > 0.0 else 0.0
            step = (1.0 if each == 0 else _DAMPING) * (new - duty[job])
            if job == absent:
                step = 0.0
            duty[job] += step
            moved = max(moved, abs(step))
        if moved < _SETTLED:
            break
    slowdown = np.ones(jobs)
    for job in range(jobs):
        slowdown[job] = _slowdown(scene, job, rate[job], alone[job])
    return Sharing(slowdown, rate, duty, limit, load)


@njit
def _loads(scene: Contention, duty: Floats, absent: int, means: tuple[Floats, Floats]) -> None:
    """Write the mean numbers of flows and of jobs that send over each link."""
    load, sending = means
    load[:] = 0.0
    sending[:] = 0.0
    for job in range(len(duty)):
        if job == absent:
            continue
        for entry in range(scene.job_first[job], scene.job_first[job + 1]):
            load[scene.link[entry]] += scene.flows[entry] * duty[job]
            sending[scene.link[entry]] += duty[job]


@njit
def _rate(
    scene: Contention, job: int, duty: float, means: tuple[Floats, Floats]
) -> tuple[float, int]:
    """Return the bytes/s of a flow while it sends, and the link that allows no more."""
    load, sending = means
    rate, limit = scene.rate_limit[job], _NONE
    for entry in range(scene.job_first[job], scene.job_first[job + 1]):
        link, own = scene.link[entry], scene.flows[entry]
        flows = own + max(0.0, load[link] - own * duty)
        meeting = 1.0 + max(0.0, sending[link] - duty)
        share = scene.capacity[link] * (1.0 - scene.incast_share * (1.0 - 1.0 / meeting)) / flows
        if share < rate:
            rate, limit = share, link
    return rate, limit


@njit
def always_on(scene: Contention) -> Floats:
    """Return the slowdown of each job as max-min fairness has it when all send all the time."""
    jobs = len(scene.compute_s)
    active = np.ones(jobs, np.bool_)
    rate = np.zeros(jobs)
    fill(scene, active, scene.capacity, rate)
    alone = alone_rate(scene)
    out = np.ones(jobs)
    for job in range(jobs):
        out[job] = _slowdown(scene, job, rate[job], alone[job])
    return out


@njit
def _slowdown(scene: Contention, job: int, rate: float, alone: float) -> float:
    """Return the time of an iteration against that at the rate alone."""
    without = iteration_s(scene, job, alone)
    return max(1.0, iteration_s(scene, job, rate) / without) if without > 0.0 else 1.0


@njit
def fill(scene: Contention, active: NDArray[np.bool_], capacity: Floats, rate: Floats) -> None:
    """Write the max-min fair rate of each active job, whose flows all get the same; else 0."""
    left = capacity.copy()
    rate[:] = 0.0
    unsettled = np.flatnonzero(active)
    count = len(unsettled)
    weight = np.zeros(len(left))
    level = 0.0
    while count > 0:
        weight[:] = 0.0
        for i in range(count):
            _add_flows(scene, unsettled[i], 1.0, weight)
        least = np.inf
        for i in range(count):
            least = min(least, _ceiling(scene, unsettled[i], level, (left, weight)))
        for i in range(count):
            _add_flows(scene, unsettled[i], level - least, left)
        level = least
        kept = 0
        for i in range(count):
            job = unsettled[i]
            if _is_settled(scene, job, level, (left, capacity)):
                rate[job] = level
            else:
                unsettled[kept] = job
                kept += 1
        count = kept


@njit
def _add_flows(scene: Contention, job: int, each: float, to: Floats) -> None:
    for entry in range(scene.job_first[job], scene.job_first[job + 1]):
        to[scene.link[entry]] += each * scene.flows[entry]


@njit
def _ceiling(scene: Contention, job: int, level: float, links: tuple[Floats, Floats]) -> float:
    """Return how far a job's rate can rise if all that are not settled rise together."""
    left, weight = links
    least = scene.rate_limit[job]
    for entry in range(scene.job_first[job], scene.job_first[job + 1]):
        link = scene.link[entry]
        least = min(least, level + max(0.0, left[link]) / weight[link])
    return float(least)


@njit
def _is_settled(scene: Contention, job: int, level: float, links: tuple[Floats, Floats]) -> bool:
    """Return whether a job is at its own limit, or one of its links is full."""
    left, capacity = links
    if scene.rate_limit[job] <= level * (1.0 + 1e-12):
        return True
    for entry in range(scene.job_first[job], scene.job_first[job + 1]):
        link = scene.link[entry]
        if left[link] <= 1e-9 * capacity[link]:
            return True
    return False
