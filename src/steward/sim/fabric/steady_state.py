"""How fast jobs really are that share links: iteration by iteration, exactly max-min fair.

The truth that estimators are trained and measured on. Jobs start at different times, compute with
some jitter, and send; whenever one begins or ends to send, the rates of all are computed anew.
Worlds: `plain` max-min; links that lose capacity when several jobs meet (incast), and that hold up
others behind them (pause frames).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.model.fabric.contention import Contention, alone_rate, iteration_s, reduced
from steward.model.fabric.link_sharing import fill

__all__ = ["PLAIN", "Losses", "measured_slowdown"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_DRAWS = 4096
_QUIET, _SENDING, _COMPUTING = 0, 1, 2


class Losses(NamedTuple):
    """What a network loses beyond sharing; all 0 is the plain world."""

    incast_share: float  # of a link's capacity, when very many jobs send over it at once
    pause_share: float  # of a link's capacity, when all its flows are held up elsewhere


PLAIN = Losses(0.0, 0.0)


_WARM_UP = 3
_JITTER = 0.03


def measured_slowdown(
    scene: Contention, *, seed: int, losses: Losses = PLAIN, iterations: int = 24
) -> Floats:
    """Return each job's mean iteration time over that alone, over at least so many iterations."""
    dice = np.random.default_rng(seed)
    if not len(scene.compute_s):
        return np.ones(0)
    scene, _ = reduced(scene, 1.0 if losses == PLAIN else 0.5)
    alone = np.array([iteration_s(scene, *each) for each in enumerate(alone_rate(scene))])
    starts = dice.random(len(alone)) * alone
    factors = np.exp(_JITTER * dice.standard_normal(_DRAWS))
    took = _simulate(scene, losses, starts, factors, (_WARM_UP, iterations))
    found: Floats = np.maximum(took / np.maximum(alone, 1e-12), 1e-9)
    return found


class _Run(NamedTuple):
    """Where each job is."""

    phase: Ints
    timer: Floats  # seconds of computing until the phase, or the iteration, may end
    bytes_left: Floats
    rate: Floats
    done: Ints  # iterations; -1: it has not started
    active: NDArray[np.bool_]


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
    run = _Run(
        np.full(jobs, _QUIET),
        starts.copy(),
        np.zeros(jobs),
        np.zeros(jobs),
        np.full(jobs, -1),
        np.zeros(jobs, np.bool_),
    )
    began, last = np.zeros(jobs), np.zeros(jobs)
    t, changed, waiting = 0.0, False, jobs
    while waiting > 0:
        if changed:
            _rates(scene, losses, run.active, run.rate)
            changed = False
        step = np.inf
        for job in range(jobs):
            step = min(step, _until_change(run, job))
        t += step
        for job in range(jobs):
            changed = _advance(scene, run, job, step) or changed
            if run.phase[job] == _SENDING or run.timer[job] > 1e-12 * max(1.0, t):
                continue
            if _sends(scene, run, job, factors):
                changed = True
                continue
            _iterates(scene, run, job, factors)
            if run.done[job] == warm:
                began[job] = t
            last[job] = t
            waiting -= run.done[job] == warm + wanted
    return (last - began) / np.maximum(run.done - warm, 1)


@njit
def _until_change(run: _Run, job: int) -> float:
    """Return seconds until a job ends computing, or sending."""
    if run.phase[job] != _SENDING:
        return float(run.timer[job])
    return float(run.bytes_left[job] / run.rate[job])


@njit
def _advance(scene: Contention, run: _Run, job: int, step: float) -> bool:
    """Let time pass for a job; return whether it ended sending."""
    run.timer[job] -= step
    if run.phase[job] != _SENDING:
        return False
    run.bytes_left[job] -= run.rate[job] * step
    if run.bytes_left[job] > 1e-9 * scene.volume_bytes[job]:
        return False
    run.active[job] = False
    run.phase[job] = _COMPUTING
    return True


@njit
def _sends(scene: Contention, run: _Run, job: int, factors: Floats) -> bool:
    """Let a job begin to send, if that is what comes; return whether it does."""
    if run.phase[job] != _QUIET or run.done[job] < 0 or scene.volume_bytes[job] <= 0.0:
        return False
    run.phase[job], run.active[job] = _SENDING, True
    run.bytes_left[job] = scene.volume_bytes[job]
    factor = factors[(job * 769 + run.done[job]) % len(factors)]
    run.timer[job] = factor * scene.overlap_share[job] * scene.compute_s[job]
    return True


@njit
def _iterates(scene: Contention, run: _Run, job: int, factors: Floats) -> None:
    """End an iteration and begin the next."""
    run.done[job] += 1
    run.phase[job] = _QUIET
    factor = factors[(job * 769 + run.done[job]) % len(factors)]
    share = 1.0 if scene.volume_bytes[job] <= 0.0 else 1.0 - scene.overlap_share[job]
    run.timer[job] = factor * share * scene.compute_s[job]


@njit
def _rates(scene: Contention, losses: Losses, active: NDArray[np.bool_], rate: Floats) -> None:
    """Write the rates of the jobs that send."""
    if losses.incast_share == 0.0 and losses.pause_share == 0.0:
        fill(scene, active, scene.capacity, rate)
        return
    meeting, flows = _meetings(scene, active)
    left = scene.capacity * (1.0 - losses.incast_share * (1.0 - 1.0 / np.maximum(meeting, 1.0)))
    fill(scene, active, left, rate)
    if losses.pause_share == 0.0:
        return
    used, held = np.zeros(len(left)), np.zeros(len(left))
    for job in np.flatnonzero(active):
        for entry in range(scene.job_first[job], scene.job_first[job + 1]):
            used[scene.link[entry]] += rate[job] * scene.flows[entry]
    for row in range(len(active)):
        if active[row]:
            _hold_up(scene, row, (meeting, used, left), held)
    left *= 1.0 - losses.pause_share * held / np.maximum(flows, 1e-9)
    fill(scene, active, left, rate)


@njit
def _meetings(scene: Contention, active: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return how many jobs, and how many flows, send over each link now."""
    meeting, flows = np.zeros(len(scene.capacity)), np.zeros(len(scene.capacity))
    for job in np.flatnonzero(active):
        for entry in range(scene.job_first[job], scene.job_first[job + 1]):
            meeting[scene.link[entry]] += 1.0
            flows[scene.link[entry]] += scene.flows[entry]
    return meeting, flows


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
