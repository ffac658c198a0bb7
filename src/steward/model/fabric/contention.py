"""Jobs that share links: who sends how much over which link, in columns.

A job computes for `compute_s`, then sends `volume_bytes` over each of its flows; `overlap_share`
of the computing goes on meanwhile. The flows of a job advance in step, as those of a pipelined
ring do: the slowest link that one of them crosses sets the speed of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit

__all__ = ["Contention", "JobColumns", "alone_rate", "iteration_s", "of_entries", "reduced"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class JobColumns(NamedTuple):
    """What is known of each job, wherever it runs."""

    compute_s: Floats  # of one iteration
    overlap_share: Floats  # of the computing that goes on while the job sends
    volume_bytes: Floats  # of one flow, per iteration
    rate_limit: Floats  # bytes/s of one flow that the job's own hosts allow


class Contention(NamedTuple):
    """Jobs on links. Entries of job `j` are `job_first[j]:job_first[j + 1]`."""

    compute_s: Floats
    overlap_share: Floats
    volume_bytes: Floats
    rate_limit: Floats
    capacity: Floats  # bytes/s of each link
    job_first: Ints
    link: Ints  # of each entry
    flows: Floats  # of the entry's job on that link; less than 1 where packets are spread
    incast_share: float = 0.0  # of its capacity that a link loses when very many jobs meet on it


def of_entries(
    jobs: JobColumns, capacity: Floats, entries: Sequence[tuple[Ints, Floats]]
) -> Contention:
    """Put jobs together with the links that each crosses and its flows on them."""
    counts = np.array([0, *(len(links) for links, _ in entries)], np.int64)
    link = np.concatenate([np.zeros(0, np.int64), *(links for links, _ in entries)])
    flows = np.concatenate([np.zeros(0), *(flows for _, flows in entries)])
    compute, overlap, volume, limit = (
        np.ascontiguousarray(column, dtype=np.float64) for column in jobs
    )
    return Contention(
        compute,
        overlap,
        volume,
        limit,
        np.ascontiguousarray(capacity, np.float64),
        np.cumsum(counts, dtype=np.int64),
        link,
        flows,
    )


@njit
def iteration_s(scene: Contention, job: int, rate: float) -> float:
    """Return how long an iteration takes with so many bytes/s for each flow."""
    volume = scene.volume_bytes[job]
    sending = volume / rate if volume > 0.0 else 0.0
    computing = scene.compute_s[job]
    return float(max(computing, (1.0 - scene.overlap_share[job]) * computing + sending))


@njit
def alone_rate(scene: Contention) -> Floats:
    """Return the bytes/s of a flow of each job without the others."""
    rate = scene.rate_limit.copy()
    for job in range(len(rate)):
        for entry in range(scene.job_first[job], scene.job_first[job + 1]):
            rate[job] = min(rate[job], scene.capacity[scene.link[entry]] / scene.flows[entry])
    return rate


@njit
def reduced(scene: Contention, slack: float) -> tuple[Contention, Ints]:
    """Return the same jobs on only the links where they can meet, and which links those are.

    A link stays if several jobs cross it and could together fill `slack` of it, each as fast as it
    is alone. The others are in the jobs' `rate_limit`: at a slack of 1 nothing else changes.
    """
    rate = alone_rate(scene)
    asked = np.zeros(len(scene.capacity))
    jobs_on = np.zeros(len(scene.capacity), np.int64)
    for job in range(len(rate)):
        for entry in range(scene.job_first[job], scene.job_first[job + 1]):
            asked[scene.link[entry]] += rate[job] * scene.flows[entry]
            jobs_on[scene.link[entry]] += 1
    number = np.full(len(asked), -1)
    links = 0
    for link in range(len(asked)):
        if jobs_on[link] > 1 and asked[link] > slack * scene.capacity[link]:
            number[link] = links
            links += 1
    kept = np.flatnonzero(number >= 0)
    first = np.zeros(len(rate) + 1, np.int64)
    link_of, flows, used = np.zeros(len(scene.link), np.int64), np.zeros(len(scene.link)), 0
    for job in range(len(rate)):
        for entry in range(scene.job_first[job], scene.job_first[job + 1]):
            if number[scene.link[entry]] >= 0:
                link_of[used] = number[scene.link[entry]]
                flows[used] = scene.flows[entry]
                used += 1
        first[job + 1] = used
    small = Contention(
        scene.compute_s,
        scene.overlap_share,
        scene.volume_bytes,
        rate,
        scene.capacity[kept],
        first,
        link_of[:used].copy(),
        flows[:used].copy(),
        scene.incast_share,
    )
    return small, kept
