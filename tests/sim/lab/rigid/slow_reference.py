"""A second simulator, slow and obvious: whole numbers, plain lists, GPUs only counted.

It was written from the policies' descriptions, not from the engine, and shares no code with it. At
one instant: completions, then arrivals in the order of the file, then changes of level, then one
look by the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from typing import Protocol

from steward.model.trace import Trace

HOUR = 3600
LIMITS_S = [hours * HOUR for hours in (1, 4, 12, 24, 48, 96, 168, 336, 720, 2400)]


@dataclass(eq=False)
class Job:
    """One job, and what has become of it."""

    row: int
    submit_s: int
    duration_s: int
    gpus: int
    tenant: int
    ran_s: int = 0  # before it last started
    since_s: int | None = None  # when it last started; None: it does not run
    first_s: int | None = None
    end_s: int | None = None
    stops: int = 0

    def attained_s(self, now_s: int) -> int:
        return self.ran_s + (now_s - self.since_s if self.since_s is not None else 0)

    def left_s(self, now_s: int) -> int:
        return self.duration_s - self.attained_s(now_s)

    @property
    def limit_s(self) -> int:
        """What its user would have asked for."""
        return next(limit for limit in LIMITS_S if limit >= self.duration_s)


class Policy(Protocol):
    """Keeps its own lists, and says who should run."""

    def arrive(self, job: Job) -> None: ...
    def end(self, job: Job) -> None: ...
    def settle(self, now_s: int) -> None:
        """Let levels change that change now."""

    def next_s(self) -> float:
        """Say when a level changes next, if nothing else happens."""

    def choose(self, now_s: int, gpus: int) -> list[Job]:
        """Return everybody who should run now."""


@dataclass(eq=False)
class Quiet:
    """What most policies do when nothing happens."""

    running: list[Job] = field(default_factory=list)
    waiting: list[Job] = field(default_factory=list)

    def arrive(self, job: Job) -> None:
        self.waiting.append(job)

    def end(self, job: Job) -> None:
        self.running.remove(job)

    def settle(self, now_s: int) -> None: ...

    def next_s(self) -> float:
        return inf

    def start(self, job: Job) -> None:
        self.waiting.remove(job)
        self.running.append(job)

    def free(self, gpus: int) -> int:
        return gpus - sum(job.gpus for job in self.running)


@dataclass(eq=False)
class InLine(Quiet):
    """Nobody is stopped; waiting jobs go by `key`, then by arrival."""

    key: Callable[[Job], int] = lambda _: 0
    strict: bool = True  # the first that does not fit blocks the others

    def choose(self, now_s: int, gpus: int) -> list[Job]:
        for job in sorted(self.waiting, key=self.key):
            if job.gpus <= self.free(gpus):
                self.start(job)
            elif self.strict:
                break
        return self.running


@dataclass(eq=False)
class Shortest:
    """Whoever has least left runs; equal ones keep the order that they had."""

    by_gpus: bool = False
    order: list[Job] = field(default_factory=list)
    new: list[Job] = field(default_factory=list)  # since the last look
    tied: bool = False  # somebody was stopped who ranks as one that came at that very instant

    def arrive(self, job: Job) -> None:
        self.order.append(job)
        self.new.append(job)

    def end(self, job: Job) -> None:
        self.order.remove(job)

    def settle(self, now_s: int) -> None: ...

    def next_s(self) -> float:
        return inf

    def choose(self, now_s: int, gpus: int) -> list[Job]:
        def key(job: Job) -> int:
            return job.left_s(now_s) * (job.gpus if self.by_gpus else 1)

        self.order.sort(key=key)
        chosen = walk(self.order, gpus)
        stopped = [job for job in self.order if job.since_s is not None and job not in chosen]
        self.tied |= bool({key(job) for job in stopped} & {key(job) for job in self.new})
        self.new = []
        return chosen


def walk(order: Sequence[Job], gpus: int) -> list[Job]:
    """Give GPUs to everybody who still fits; skip the others."""
    chosen: list[Job] = []
    for job in order:
        if job.gpus <= gpus:
            gpus -= job.gpus
            chosen.append(job)
    return chosen


@dataclass(eq=False)
class Levels:
    """Queues by attained time (or service): who reaches a threshold falls to the next one's end.

    After a look, those of a queue that do not run stand behind those that do. A job of a lower
    queue that has waited `promote` times the time that it ran is new again.
    """

    thresholds: Sequence[int] = ()
    by_gpus: bool = False
    promote: int = 0
    queues: list[list[Job]] = field(default_factory=list)
    forgiven_s: dict[int, int] = field(default_factory=dict)
    promotions: list[tuple[int, Job]] = field(default_factory=list)  # in the order of the stops
    now_s: int = 0

    def __post_init__(self) -> None:
        self.queues = [[] for _ in range(len(self.thresholds) + 1)]

    def arrive(self, job: Job) -> None:
        self.queues[0].append(job)
        self.forgiven_s[job.row] = 0

    def end(self, job: Job) -> None:
        next(queue for queue in self.queues if job in queue).remove(job)

    def _counted_s(self, job: Job, now_s: int) -> int:
        return job.attained_s(now_s) - self.forgiven_s[job.row]

    def _size(self, job: Job) -> int:
        return job.gpus if self.by_gpus else 1

    def next_s(self) -> float:
        times = [t_s for t_s, _ in self.promotions]
        for queue, threshold in zip(self.queues, self.thresholds, strict=False):
            for job in queue:
                if job.since_s is not None:
                    done = self._counted_s(job, self.now_s) * self._size(job)
                    times.append(self.now_s + Fraction(threshold - done, self._size(job)))
        return min(times, default=inf)

    def settle(self, now_s: int) -> None:
        running = [job for queue in self.queues for job in queue if job.since_s is not None]
        for job in sorted(running, key=lambda job: job.row):
            level = next(i for i, queue in enumerate(self.queues) if job in queue)
            counted = self._counted_s(job, now_s) * self._size(job)
            reached = sum(counted >= threshold for threshold in self.thresholds)
            if reached > level:
                self.queues[level].remove(job)
                self.queues[reached].append(job)
        for t_s, job in [each for each in self.promotions if each[0] <= now_s]:
            self.promotions.remove((t_s, job))
            next(queue for queue in self.queues if job in queue).remove(job)
            self.forgiven_s[job.row] = job.attained_s(now_s)
            self.queues[0].append(job)

    def choose(self, now_s: int, gpus: int) -> list[Job]:
        self.now_s = now_s
        chosen = walk([job for queue in self.queues for job in queue], gpus)
        for level, queue in enumerate(self.queues):
            for job in queue if level and self.promote else ():
                if job.since_s is not None and job not in chosen:
                    at_s = now_s + self.promote * self._counted_s(job, now_s)
                    self.promotions.append((at_s, job))
            queue.sort(key=lambda job: job not in chosen)
        self.promotions = [each for each in self.promotions if each[1] not in chosen]
        return chosen


@dataclass(eq=False)
class Easy(InLine):
    """The first that does not fit gets a date; others may start if they do not move it."""

    tied: bool = False  # several jobs had to end on the date itself

    def choose(self, now_s: int, gpus: int) -> list[Job]:
        InLine.choose(self, now_s, gpus)
        if not self.waiting:
            return self.running
        head = self.waiting[0]
        dates_s = sorted(latest_end_s(job, now_s) for job in self.running)
        date_s = next(t for t in dates_s if self._free_at(t, now_s, gpus) >= head.gpus)
        spare = self._free_at(date_s, now_s, gpus) - head.gpus
        self.tied |= dates_s.count(date_s) > 1
        for job in self.waiting[1:]:
            if job.gpus > self.free(gpus):
                continue
            if now_s + job.limit_s > date_s:
                if job.gpus > spare:
                    continue
                spare -= job.gpus
            self.start(job)
        return self.running

    def _free_at(self, t_s: int, now_s: int, gpus: int) -> int:
        return gpus - sum(job.gpus for job in self.running if latest_end_s(job, now_s) > t_s)


def latest_end_s(job: Job, now_s: int) -> int:
    """Return when a running job ends by its limit; who is overdue may end any moment."""
    return max((now_s if job.since_s is None else job.since_s) + job.limit_s, now_s + 1)


@dataclass(eq=False)
class Conservative(InLine):
    """Everybody gets the first date at which there is room to the end of its limit."""

    depth: int = 100
    interval_s: int = 0
    looked_s: int = 0

    def choose(self, now_s: int, gpus: int) -> list[Job]:
        InLine.choose(self, now_s, gpus)
        if not self.waiting or not self.free(gpus) or now_s < self.looked_s + self.interval_s:
            return self.running
        self.looked_s = now_s
        taken = [(now_s, latest_end_s(job, now_s), job.gpus) for job in self.running]
        for job in self.waiting[: self.depth]:
            dates_s = [now_s, *sorted(stop for _, stop, _ in taken)]
            date_s = next(t for t in dates_s if _fits_from(t, job, taken, gpus))
            taken.append((date_s, date_s + job.limit_s, job.gpus))
            if date_s == now_s:
                self.start(job)
        return self.running


def _fits_from(t_s: int, job: Job, taken: list[tuple[int, int, int]], gpus: int) -> bool:
    until_s = t_s + job.limit_s
    moments = [t_s, *(start for start, _, _ in taken if t_s < start < until_s)]
    return all(
        job.gpus <= gpus - sum(n for start, stop, n in taken if start <= at < stop)
        for at in moments
    )


@dataclass(eq=False)
class WithinQuota(Quiet):
    """Every tenant starts what fits into its own GPUs."""

    quota: Sequence[int] = ()

    def choose(self, now_s: int, gpus: int) -> list[Job]:
        for job in list(self.waiting):
            held = sum(other.gpus for other in self.running if other.tenant == job.tenant)
            if held + job.gpus <= self.quota[job.tenant]:
                self.start(job)
        return self.running


@dataclass(eq=False)
class LeastShare(Quiet):
    """The next job is of whoever holds least for its weight; who does not fit is passed over."""

    weight: Sequence[int] = ()

    def choose(self, now_s: int, gpus: int) -> list[Job]:
        left = list(self.waiting)
        while left and self.free(gpus):
            held = [
                Fraction(sum(job.gpus for job in self.running if job.tenant == tenant), weight)
                for tenant, weight in enumerate(self.weight)
            ]
            job = min(left, key=lambda job: (held[job.tenant], job.tenant, left.index(job)))
            left.remove(job)
            if job.gpus <= self.free(gpus):
                self.start(job)
        return self.running


def slow_replay(trace: Trace, gpus: int, policy: Policy) -> list[Job]:
    """Run all jobs to their end; those that can never start are left as they came."""
    jobs = [
        Job(row, int(submit_s), int(duration_s), int(size), int(tenant))
        for row, (submit_s, duration_s, size, tenant) in enumerate(
            zip(trace.submit_s, trace.duration_s, trace.gpus, trace.tenant, strict=True)
        )
    ]
    coming, running = list(jobs), list[Job]()
    now_s: float = 0
    while True:
        ends_s = [job.since_s + job.duration_s - job.ran_s for job in running]  # type: ignore[operator]
        now_s = min([*ends_s, policy.next_s(), *(job.submit_s for job in coming[:1])], default=inf)
        if now_s == inf:
            return jobs
        assert now_s == int(now_s), "the examples are such that everything falls on whole seconds"
        now_s = int(now_s)
        for job in [job for job in running if job.left_s(now_s) == 0]:
            job.end_s, job.since_s = now_s, None
            running.remove(job)
            policy.end(job)
        while coming and coming[0].submit_s <= now_s:
            policy.arrive(coming.pop(0))
        policy.settle(now_s)
        running = _carry_out(running, list(policy.choose(now_s, gpus)), now_s)


def _carry_out(running: list[Job], chosen: list[Job], now_s: int) -> list[Job]:
    for job in running:
        if job not in chosen:
            job.ran_s, job.since_s = job.attained_s(now_s), None
            job.stops += 1
    for job in chosen:
        if job.since_s is None:
            job.since_s = now_s
            job.first_s = now_s if job.first_s is None else job.first_s
    return chosen
