"""From the signature of a congestion to what helps most: move, separate, throttle, shift, wait.

Every option is priced in the same coin, GPU-seconds of computing by the end of the horizon, and
only those whose gain exceeds their cost are returned, the best first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from steward.decide.fabric.least_contention import NetworkLoad, by_mean_field
from steward.decide.fabric.moves import MovableJob, NetworkMoves
from steward.model.fabric.contention import Contention, alone_rate, iteration_s, reduced
from steward.model.fabric.link_sharing import share_links, share_links_without
from steward.model.fabric.placed_job import PlacedJob, contention_of, entries_of

__all__ = ["CongestionOption", "Congestions", "SlowLink", "slow_links"]

Floats = NDArray[np.float64]
Kind = Literal["move", "separate", "throttle", "shift", "wait", "drain-link"]

_SLOW = 1.5  # measured against predicted: more than sharing explains
_JOBS = 3  # that have to show it
_COMMENSURABLE = 0.05  # periods, or small multiples of them, that differ by less stay in step
_PHASE_HOLDS = 0.5  # of what an ideal shift brings, that jitter leaves
_MULTIPLES = (1, 2, 3)
_LEAST_SHARE = 0.05  # of a link, that is left beside a capped job


@dataclass(frozen=True, slots=True, kw_only=True)
class CongestionOption:
    """One thing to do about a slow job, with what it brings and costs."""

    kind: Kind
    job: str  # that is moved, throttled, shifted, or waits
    helps: str  # the job it is done for
    gain_gpu_s: float
    cost_gpu_s: float
    because: str

    @property
    def net_gpu_s(self) -> float:
        """What is left of the gain."""
        return self.gain_gpu_s - self.cost_gpu_s


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowLink:
    """A link that several jobs find slower than sharing explains."""

    link: int
    ratio: float  # measured slowdown against predicted, median of its jobs
    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Congestions:
    """Weighs what can be done. `horizon_s` is how long a throttle, shift or wait would hold."""

    moves: NetworkMoves = NetworkMoves()  # noqa: RUF009 - frozen
    horizon_s: float = 3600.0
    throttle_share: float = 0.5  # of its rate that a throttled job keeps

    def options(
        self, load: NetworkLoad, job: str, known: Mapping[str, MovableJob]
    ) -> tuple[CongestionOption, ...]:
        """Return what is worth doing for a slow job, the best first."""
        jobs = [each for each in load.jobs if len(each.nodes) > 1]
        row = next((i for i, each in enumerate(jobs) if each.job == job), None)
        if row is None:
            return ()
        entries = [entries_of(load.place, each, 0) for each in jobs]
        scene, _ = reduced(contention_of(load.place, jobs, entries), 1.0)
        found = [
            *self._moved(load, job, known),
            *self._throttled(scene, jobs, row),
            *self._shifted(scene, jobs, row),
        ]
        worth = [each for each in found if each.net_gpu_s > 0.0]
        return tuple(sorted(worth, key=lambda each: -each.net_gpu_s))

    def wait_or_start(
        self, load: NetworkLoad, new: PlacedJob, wait_s: float
    ) -> CongestionOption | None:
        """Return waiting for a neighbour to end, if starting now costs the others more."""
        jobs = [each for each in load.jobs if len(each.nodes) > 1]
        all_jobs = [*jobs, new]
        entries = [entries_of(load.place, each, 0) for each in all_jobs]
        after = contention_of(load.place, all_jobs, entries)
        before = contention_of(load.place, jobs, entries[:-1])
        slow_after, slow_before = by_mean_field([after, before])
        with_it = _useful(after, slow_after, all_jobs)
        without = _useful(before, slow_before, jobs)
        lost = (without - with_it) * min(wait_s, self.horizon_s)
        if lost <= 0.0:
            return None
        return CongestionOption(
            kind="wait",
            job=new.job,
            helps=new.job,
            gain_gpu_s=lost,
            cost_gpu_s=0.0,
            because=f"started now it would cost the others more than it computes in {wait_s:.0f} s",
        )

    def _moved(
        self, load: NetworkLoad, job: str, known: Mapping[str, MovableJob]
    ) -> Iterator[CongestionOption]:
        """Price moving the job itself, and each of the others away from it."""
        for each in load.jobs:
            if each.job not in known or len(each.nodes) < 2:
                continue
            finder = replace(self.moves, tried=1, least_slowdown=1.0)
            move = finder.best(load, {each.job: known[each.job]})
            if move is None:
                continue
            yield CongestionOption(
                kind="move" if each.job == job else "separate",
                job=each.job,
                helps=job,
                gain_gpu_s=move.gain_gpu_s + move.cost_gpu_s,
                cost_gpu_s=move.cost_gpu_s,
                because=move.sentence,
            )

    def _throttled(
        self, scene: Contention, jobs: Sequence[PlacedJob], row: int
    ) -> Iterator[CongestionOption]:
        """Price a cap on each neighbour: what all gain, less what it loses."""
        now = _useful(scene, share_links(scene).slowdown, jobs)
        alone = alone_rate(scene)
        for other in _neighbours(scene, row):
            limit = self.throttle_share * float(alone[other])
            period = iteration_s(scene, other, limit)
            left = _left_beside(scene, other, float(scene.volume_bytes[other]) / period)
            rates = share_links_without(left, other).rate
            rates[other] = limit
            then = _useful_at(scene, rates, jobs)
            gain = (then - now) * self.horizon_s
            yield CongestionOption(
                kind="throttle",
                job=jobs[other].job,
                helps=jobs[row].job,
                gain_gpu_s=gain,
                cost_gpu_s=0.0,
                because=f"at {self.throttle_share:.0%} of its rate {jobs[other].job} loses less "
                "than the others gain",
            )

    def _shifted(
        self, scene: Contention, jobs: Sequence[PlacedJob], row: int
    ) -> Iterator[CongestionOption]:
        """Price sending in turn (CASSINI): two jobs whose periods fit, with room for both."""
        sharing = share_links(scene)
        rates = alone_rate(scene)
        periods = [iteration_s(scene, each, rates[each]) for each in range(len(jobs))]
        for other in _neighbours(scene, row):
            duty = [scene.volume_bytes[each] / rates[each] / periods[each] for each in (row, other)]
            if sum(duty) > 1.0 or not _in_step(periods[row], periods[other]):
                continue
            gain = sum(
                jobs[each].total_gpus
                * jobs[each].profile.compute_s
                / periods[each]
                * (1.0 - 1.0 / float(sharing.slowdown[each]))
                for each in (row, other)
            )
            yield CongestionOption(
                kind="shift",
                job=jobs[other].job,
                helps=jobs[row].job,
                gain_gpu_s=_PHASE_HOLDS * gain * self.horizon_s,
                cost_gpu_s=jobs[other].total_gpus * periods[other],
                because=f"iterations of {periods[row]:.2f} s and {periods[other]:.2f} s fit: "
                f"{jobs[other].job} would send while {jobs[row].job} computes",
            )


def slow_links(
    scene: Contention, measured: Mapping[int, float], names: Sequence[str]
) -> tuple[SlowLink, ...]:
    """Return links whose jobs are all slower than sharing explains: to be drained and looked at.

    A job counts against a link only if no other of its links is shared by as many slow jobs.
    `measured` are slowdowns by row of the scene.
    """
    predicted = share_links(scene).slowdown
    ratios = {row: each / float(predicted[row]) for row, each in measured.items()}
    on: dict[int, list[int]] = {}
    for row in ratios:
        for link in scene.link[scene.job_first[row] : scene.job_first[row + 1]].tolist():
            on.setdefault(link, []).append(row)
    found = [
        SlowLink(
            link=link,
            ratio=float(np.median([ratios[row] for row in rows])),
            jobs=tuple(names[row] for row in rows),
        )
        for link, rows in sorted(on.items())
        if len(rows) >= _JOBS and min(ratios[row] for row in rows) > _SLOW
    ]
    most = max((len(each.jobs) for each in found), default=0)
    return tuple(each for each in found if len(each.jobs) == most)


def _in_step(one: float, other: float) -> bool:
    """Return whether one period is a small multiple of the other."""
    short, long = sorted((one, other))
    return any(abs(long / (n * short) - 1.0) < _COMMENSURABLE for n in _MULTIPLES)


def _left_beside(scene: Contention, other: int, rate: float) -> Contention:
    """Return the scene with what a capped job sends on average taken from its links."""
    capacity = scene.capacity.copy()
    own = slice(int(scene.job_first[other]), int(scene.job_first[other + 1]))
    taken = np.bincount(scene.link[own], scene.flows[own] * rate, minlength=len(capacity))
    return scene._replace(capacity=np.maximum(capacity - taken, _LEAST_SHARE * capacity))


def _neighbours(scene: Contention, row: int) -> list[int]:
    own = set(scene.link[scene.job_first[row] : scene.job_first[row + 1]].tolist())
    return [
        other
        for other in range(len(scene.compute_s))
        if other != row
        and own & set(scene.link[scene.job_first[other] : scene.job_first[other + 1]].tolist())
    ]


def _useful(
    scene: Contention,
    slowdown: Floats,
    jobs: Sequence[PlacedJob],
) -> float:
    rates = alone_rate(scene)
    return sum(
        each.total_gpus
        * each.profile.compute_s
        / (iteration_s(scene, row, rates[row]) * float(slowdown[row]))
        for row, each in enumerate(jobs)
    )


def _useful_at(
    scene: Contention,
    rates: Floats,
    jobs: Sequence[PlacedJob],
) -> float:
    return sum(
        each.total_gpus * each.profile.compute_s / iteration_s(scene, row, float(rates[row]))
        for row, each in enumerate(jobs)
    )
