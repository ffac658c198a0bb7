"""Which jobs failed for faults: exposed jobs beside jobs like them that met no fault."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from steward.learn.reliability.intervals import share
from steward.learn.reliability.propagation import label
from steward.model.faults import Episode, Inventory, JobSpan, short_host
from steward.model.outcome import Interval

__all__ = ["WINDOWS_S", "JobFailures", "job_failures"]

WITHIN_S = 20.0
WINDOWS_S = (5.0, 10.0, 20.0, 60.0, 300.0, 600.0)
_SLACK_S = 5.0  # lines of a crash may be later than the end that the scheduler wrote down
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailures:
    """What episodes of one kind did to jobs.

    `failed` ended in failure within the window after one; `by_chance` is the share of matched
    jobs without a fault for which a random moment would be as near before a failure.
    """

    kind: str
    exposed: int
    failed: int
    raw: Interval
    by_chance: float
    attributable: Interval
    lost_gpu_hours: float
    by_window: dict[float, int]
    unexposed_failing: Interval  # of matched jobs, at any time


def job_failures(
    episodes: Iterable[Episode],
    jobs: Sequence[JobSpan],
    *,
    now_s: float,
    inventory: Inventory | None = None,
    within_s: float = WITHIN_S,
) -> list[JobFailures]:
    """Return the effect of each kind of episode, the most exposed first.

    Secondary episodes count too: which codes jobs die of is the question here.
    """
    index = _ByNode(jobs, now_s)
    met: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    exposed: set[int] = set()
    for each in episodes:
        if each.is_timed:
            for place in index.running(each, inventory or Inventory()):
                met[label(each)][place].append(each.t_s)
                exposed.add(place)
    control = _Control(jobs, exposed, now_s)
    found = [_effect(kind, dict(places), jobs, control, within_s) for kind, places in met.items()]
    return sorted(found, key=lambda each: (-each.exposed, each.kind))


class _ByNode:
    """Jobs by node and start, for the question which ran there at a time."""

    def __init__(self, jobs: Sequence[JobSpan], now_s: float) -> None:
        self._jobs = jobs
        self._now_s = now_s
        by_node: dict[str, list[int]] = defaultdict(list)
        for place, job in enumerate(jobs):
            for node in job.nodes:
                by_node[short_host(node)].append(place)
        self._places = {
            node: sorted(group, key=lambda place: jobs[place].start_s)
            for node, group in by_node.items()
        }
        self._starts = {
            node: [jobs[place].start_s for place in group] for node, group in self._places.items()
        }
        self._longest_s = {
            node: max(jobs[place].until_s(now_s) - jobs[place].start_s for place in group)
            for node, group in self._places.items()
        }

    def running(self, each: Episode, inventory: Inventory) -> list[int]:
        """Return the jobs that held the GPU of an episode; all of the node's where it is unsure."""
        node = short_host(each.node)
        starts = self._starts.get(node)
        if starts is None:
            return []
        first = bisect_left(starts, each.t_s - self._longest_s[node] - _SLACK_S)
        last = bisect_right(starts, each.t_s)
        return [
            place
            for place in self._places[node][first:last]
            if self._jobs[place].until_s(self._now_s) + _SLACK_S >= each.t_s
            and _may_hold(self._jobs[place], each, inventory)
        ]


def _may_hold(job: JobSpan, each: Episode, inventory: Inventory) -> bool:
    indices = next(
        (own for node, own in job.indices.items() if short_host(node) == short_host(each.node)),
        None,
    )
    if not indices:
        return True
    stays = [
        stay.index
        for stay in inventory.on(each.node)
        if each.device in (stay.gpu, stay.slot) and stay.from_s <= each.t_s < stay.to_s
    ]
    return not stays or stays[0] is None or stays[0] in indices


class _Control:
    """Jobs that met no fault, by size and length."""

    def __init__(self, jobs: Sequence[JobSpan], exposed: set[int], now_s: float) -> None:
        self._groups: dict[tuple[int, int], list[JobSpan]] = defaultdict(list)
        self._now_s = now_s
        for place, job in enumerate(jobs):
            if place not in exposed:
                self._groups[self._key(job)].append(job)

    def _key(self, job: JobSpan) -> tuple[int, int]:
        ran_s = max(1.0, job.until_s(self._now_s) - job.start_s)
        return int(log(max(1, job.gpus), 2)), int(log(ran_s, 4))

    def like(self, jobs: Sequence[JobSpan], within_s: float) -> tuple[float, int, int]:
        """Return the chance that a moment is so near before a failure, and failures of all."""
        chances, failures, count = [], 0, 0
        for key in {self._key(job) for job in jobs}:
            group = self._groups.get(key, [])
            failures += sum(job.end.is_failure for job in group)
            count += len(group)
        for job in jobs:
            group = self._groups.get(self._key(job), [])
            if group:
                near = [
                    min(1.0, within_s / max(1.0, other.until_s(self._now_s) - other.start_s))
                    for other in group
                    if other.end.is_failure
                ]
                chances.append(sum(near) / len(group))
        return (float(np.mean(chances)) if chances else 0.0), failures, count


def _effect(
    kind: str,
    met: dict[int, list[float]],
    jobs: Sequence[JobSpan],
    control: _Control,
    within_s: float,
) -> JobFailures:
    failed = [place for place, times in met.items() if _failed(jobs[place], times, within_s)]
    raw = share(len(failed), len(met))
    chance, failures, count = control.like([jobs[place] for place in met], within_s)
    shifted = [max(0.0, each - chance) for each in (raw.low, raw.mid, raw.high)]
    lost_s = sum(jobs[place].gpus * (jobs[place].end_s - jobs[place].start_s) for place in failed)
    return JobFailures(
        kind=kind,
        exposed=len(met),
        failed=len(failed),
        raw=raw,
        by_chance=chance,
        attributable=Interval(low=shifted[0], mid=shifted[1], high=shifted[2]),
        lost_gpu_hours=lost_s / _HOUR_S,
        by_window={
            window_s: sum(_failed(jobs[place], times, window_s) for place, times in met.items())
            for window_s in WINDOWS_S
        },
        unexposed_failing=share(failures, count),
    )


def _failed(job: JobSpan, times: Sequence[float], within_s: float) -> bool:
    """Return whether a job failed soon after one of these times; without an end it did not."""
    return job.end.is_failure and any(-_SLACK_S <= job.end_s - t_s <= within_s for t_s in times)
