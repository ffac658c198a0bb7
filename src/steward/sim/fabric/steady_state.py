"""How fast jobs really are that share links: iteration by iteration, exactly max-min fair.

The truth that estimators are trained and measured on. Jobs start at different times, compute with
some jitter, and send; whenever one begins or ends to send, the rates of all are computed anew.
Worlds: `plain` max-min; links that lose capacity when several jobs meet (incast), and that hold up
others behind them (pause frames).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.model.fabric.contention import Contention, alone_rate, iteration_s, reduced
from steward.model.fabric.link_sharing import fill

__all__ = ["PLAIN", "Losses", "measured_slowdown"]

Floats = NDArray[np.float64]

_DRAWS = 4096
_QUIET, _SENDING, _COMPUTING = 0, 1, 2


class Losses(NamedTuple):
    """What a network loses beyond sharing; all 0 is the plain world."""

    incast_share: float  # of a link's capacity, when very many jobs send over it at once
    pause_share: float  # of a link's capacity, when all its flows are held up elsewhere


PLAIN = Losses(0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    iterations: int = 24
    warm_up: int = 3
    jitter: float = 0.03


def measured_slowdown(
    scene: Contention, *, seed: int, losses: Losses = PLAIN, iterations: int = 24
) -> Floats:
    """Return each job's mean iteration time over that alone, over at least so many iterations."""
    run = _Run(iterations=iterations)
    dice = np.random.default_rng(seed)
    if not len(scene.compute_s):
        return np.ones(0)
    scene, _ = reduced(scene, 1.0 if losses == PLAIN else 0.5)
    alone = np.array([iteration_s(scene, *each) for each in enumerate(alone_rate(scene))])
    starts = dice.random(len(alone)) * alone
    factors = np.exp(run.jitter * dice.standard_normal(_DRAWS))
    took = _simulate(scene, losses, starts, factors, (run.warm_up, run.iterations))
    return np.maximum(took / np.maximum(alone, 1e-12), 1e-9)


@njit
def _simulate(
    scene: Contention,
    losses: Losses,
    starts: Floats,
    factors: Floats,
    counts: tuple[int, int],
) -> Floats:
    """Return the mean iteration time of each job."""
    jobs = len(starts)
    warm, wanted = counts
    phase = np.full(jobs, _QUIET)
    timer = starts.copy()  # seconds of computing until the phase, or the iteration, may end
    bytes_left, rate = np.zeros(jobs), np.zeros(jobs)
    done, began, last = np.full(jobs, -1), np.zeros(jobs), np.zeros(jobs)
    active = np.zeros(jobs, np.bool_)
    t, changed, waiting = 0.0, False, jobs
    while waiting > 0:
        if changed:
            _rates(scene, losses, active, rate)
            changed = False
        step = np.inf
        for job in range(jobs):
            if phase[job] != _SENDING:
                step = min(step, timer[job])
            elif bytes_left[job] > 0.0:
                step = min(step, bytes_left[job] / rate[job])
        t += step
        for job in range(jobs):
            timer[job] -= step
            if phase[job] == _SENDING:
                bytes_left[job] -= rate[job] * step
                if bytes_left[job] > 1e-9 * scene.volume_bytes[job]:
                    continue
                active[job], changed = False, True
                phase[job] = _COMPUTING
            if timer[job] > 1e-12 * max(1.0, t):
                continue
            if phase[job] == _QUIET and done[job] >= 0 and scene.volume_bytes[job] > 0.0:
                phase[job], active[job], changed = _SENDING, True, True
                bytes_left[job] = scene.volume_bytes[job]
                factor = factors[(job * 769 + done[job]) % len(factors)]
                timer[job] = factor * scene.overlap_share[job] * scene.compute_s[job]
                continue
            done[job] += 1
            if done[job] == warm:
                began[job] = t
            last[job] = t
            if done[job] == warm + wanted:
                waiting -= 1
            phase[job] = _QUIET
            factor = factors[(job * 769 + done[job]) % len(factors)]
            share = 1.0 if scene.volume_bytes[job] <= 0.0 else 1.0 - scene.overlap_share[job]
            timer[job] = factor * share * scene.compute_s[job]
    return (last - began) / np.maximum(done - warm, 1)


@njit
def _rates(scene: Contention, losses: Losses, active: NDArray[np.bool_], rate: Floats) -> None:
    """Write the rates of the jobs that send."""
    if losses.incast_share == 0.0 and losses.pause_share == 0.0:
        fill(scene, active, scene.capacity, rate)
        return
    links = len(scene.capacity)
    meeting, flows, held = np.zeros(links), np.zeros(links), np.zeros(links)
    used = np.zeros(links)
    for job in range(len(rate)):
        if active[job]:
            for entry in range(scene.job_first[job], scene.job_first[job + 1]):
                meeting[scene.link[entry]] += 1.0
                flows[scene.link[entry]] += scene.flows[entry]
    left = scene.capacity.copy()
    for link in range(links):
        if meeting[link] > 1.0:
            left[link] *= 1.0 - losses.incast_share * (1.0 - 1.0 / meeting[link])
    fill(scene, active, left, rate)
    if losses.pause_share == 0.0:
        return
    for job in range(len(rate)):
        if active[job]:
            for entry in range(scene.job_first[job], scene.job_first[job + 1]):
                used[scene.link[entry]] += rate[job] * scene.flows[entry]
    for job in range(len(rate)):
        if active[job]:
            _hold_up(scene, job, (meeting, used, left), held)
    for link in range(links):
        if flows[link] > 0.0:
            left[link] *= 1.0 - losses.pause_share * held[link] / flows[link]
    fill(scene, active, left, rate)


@njit
def _hold_up(
    scene: Contention, job: int, links: tuple[Floats, Floats, Floats], held: Floats
) -> None:
    """Count the flows of a job on its other links, if one shared link is full."""
    meeting, used, left = links
    full = -1
    for entry in range(scene.job_first[job], scene.job_first[job + 1]):
        link = scene.link[entry]
        if meeting[link] > 1.0 and used[link] >= 0.999 * left[link]:
            full = link
    if full < 0:
        return
    for entry in range(scene.job_first[job], scene.job_first[job + 1]):
        link = scene.link[entry]
        if not (meeting[link] > 1.0 and used[link] >= 0.999 * left[link]):
            held[link] += scene.flows[entry]
