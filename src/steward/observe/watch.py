"""Runs all collectors at once and waits for a bounded time.

Samplers are read at their own pace in between; a look brings all their ticks. A collector that
throws costs only its own samples. One that hangs is left hanging, is named once, and is read again
when it comes back; what it then brings still counts, since samples carry their own time.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from steward.errors import StewardError
from steward.model.cluster import Cluster, Node
from steward.model.event import Fault, LogLine, Observation
from steward.model.frame import check_other, empty_frame
from steward.model.identity import TenantId
from steward.model.job import Tenant
from steward.model.site import TenantCeiling
from steward.observe.merge import merge_clusters, merge_observations
from steward.observe.normalise import Normaliser
from steward.observe.sampling import Pace, PaceStats, Track
from steward.ports import Collector, Lister, Resumable, Sampler

__all__ = ["Watch"]

FIRST_TIMES = 4.0  # longer than later ones may the first read of a collector take: it opens things
HUNG_S = 0.25  # how long a look waits for one that hung in the last look already
LINE_AHEAD_S = 86400.0  # a clock may be wrong by a time zone; a line of next week has no time
CLOSE_S = 2.0  # and the end for a source that does not let itself be closed


class Watch:
    """All collectors of a site, read as one."""

    def __init__(
        self,
        collectors: Sequence[Collector],
        *,
        timeout_s: float = 5.0,
        gap_after_s: float = 120.0,
        sample_every_s: float = 1.0,
        tenants: Sequence[Tenant] = (),
        join_lines: Callable[[Sequence[LogLine]], tuple[LogLine, ...]] = tuple,
    ) -> None:
        self.timeout_s = timeout_s
        self._join_lines = join_lines  # makes entries of lines: `observe.logs.live_entries`
        self._named = {tenant.id: tenant for tenant in tenants}  # by the site: they win
        self._tenants: dict[str, tuple[Tenant, ...]] = {}
        self._ceilings: dict[str, Mapping[TenantId, TenantCeiling]] = {}
        samplers = [each for each in collectors if isinstance(each, Sampler)]
        self._pace = Pace(samplers, every_s=sample_every_s, gap_after_s=gap_after_s)
        self._posts = [_Post(each, self._pace, gap_after_s=gap_after_s) for each in collectors]
        self._clusters: dict[str, Cluster] = {}

    def look(self, t_s: float) -> tuple[Observation, tuple[Fault, ...]]:
        """Return what all collectors saw, and what went wrong with any of them."""
        self._pace.start()
        for post in self._posts:
            post.submit(t_s)
        began_s = time.monotonic()
        seen: list[Observation] = []
        faults: list[Fault] = []
        for post in self._posts:
            limit_s = self.timeout_s * (1.0 if post.has_answered else FIRST_TIMES)
            got, fault = post.answer(began_s, limit_s, t_s)
            seen += got
            faults += [fault] if fault else []
            for each in got:
                faults += self._learn_cluster(post.name, each.cluster, t_s)
                if each.tenants is not None:
                    self._tenants[post.name] = each.tenants
                if each.ceilings is not None:
                    self._ceilings[post.name] = each.ceilings
        whole = self._merge(seen)
        whole = replace(whole, lines=_with_possible_times(whole.lines, t_s))
        try:
            whole = replace(whole, lines=self._join_lines(whole.lines))
        except Exception as fault:  # noqa: BLE001 - lines as they came are better than none
            problem = f"lines could not be joined: {type(fault).__name__}: {fault}"
            faults.append(Fault(t_s=t_s, where="observe.logs", problem=problem))
        return whole, tuple(faults)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all collectors."""
        return tuple(post.name for post in self._posts)

    @property
    def pace(self) -> Mapping[str, PaceStats]:
        """How well each sampler's pace was kept, by its name."""
        return {name: track.stats for name, track in self._pace.tracks.items()}

    @property
    def missing(self) -> Mapping[str, str]:
        """Why collectors that have nothing to read have none, by their names."""
        return {post.name: post.missing for post in self._posts if post.missing}

    @property
    def columns(self) -> int:
        """How many numbers all samplers read at a tick, known or not."""
        return sum(track.columns for track in self._pace.tracks.values())

    @property
    def has_listed(self) -> bool:
        """Whether all engines that list what they have did so in this run, and there is one."""
        listers = [post for post in self._posts if post.lists]
        return bool(listers) and all(post.has_listed for post in listers)

    @property
    def unreachable(self) -> tuple[Fault, ...]:
        """The engines that do not answer: since when, and why as of their last look."""
        return tuple(post.trouble for post in self._posts if post.lists and post.trouble)

    def positions(self) -> dict[str, Any]:
        """Return how far each stream was read in the looks that were answered, by collector."""
        return {post.name: post.positions for post in self._posts if post.positions is not None}

    def resume(self, positions: Mapping[str, Any]) -> None:
        """Resume all streams where an earlier run was. Call it before the first read."""
        for post in self._posts:
            if post.name in positions:
                post.resume(positions[post.name])

    def stop(self) -> None:
        """Stop sampling. What was sampled since the last look can still be looked at, once."""
        self._pace.stop()

    def close(self) -> None:
        """Stop sampling and close all sources: sockets, watches, programs in the kernel."""
        self._pace.stop()
        for post in self._posts:
            post.close()

    def _learn_cluster(self, name: str, found: Cluster | None, t_s: float) -> list[Fault]:
        """Store the cluster of one collector, unless it contradicts the others."""
        if found is None:
            return []
        try:
            _merged((*(each for of, each in self._clusters.items() if of != name), found))
        except StewardError as fault:
            where = f"collector {name}"
            return [Fault(t_s=t_s, where=where, problem=str(fault), hint=fault.hint)]
        self._clusters[name] = found
        return []

    def _merge(self, seen: Sequence[Observation]) -> Observation:
        if len(seen) == 1 and len(self._posts) == 1 and not self._named:
            return seen[0]
        has_tenants = any(each.tenants is not None for each in seen)
        has_ceilings = any(each.ceilings is not None for each in seen)
        fresh = any(each.cluster for each in seen)
        return replace(
            merge_observations(seen),
            cluster=_merged(tuple(self._clusters.values())) if fresh and self._clusters else None,
            tenants=self._all_tenants() if has_tenants else None,
            ceilings=self._all_ceilings() if has_ceilings else None,
        )

    def _all_ceilings(self) -> dict[TenantId, TenantCeiling]:
        """Return what all engines say; of a tenant of several, the strictest counts."""
        found: dict[TenantId, TenantCeiling] = {}
        for ceilings in self._ceilings.values():
            for tenant, each in ceilings.items():
                found[tenant] = found[tenant].with_stricter(each) if tenant in found else each
        return found

    def _all_tenants(self) -> tuple[Tenant, ...]:
        seen = {each.id: each for tenants in self._tenants.values() for each in tenants}
        return tuple({**seen, **self._named}.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What one collector brought, and how far it has read if it reads a stream."""

    seen: Observation | None = None
    fault: Fault | None = None
    positions: Any = None
    has_listed: bool = False


class _Post:
    """One collector with a thread of its own, so that the caller never blocks on it."""

    def __init__(self, collector: Collector, pace: Pace, *, gap_after_s: float) -> None:
        self.name = collector.name
        self._pace = pace
        self._track: Track | None = pace.tracks.get(collector.name)
        self._collector = collector
        self._normaliser = Normaliser(
            source=collector.name, vocabulary=collector.vocabulary, gap_after_s=gap_after_s
        )
        self._requests: queue.SimpleQueue[float | None] = queue.SimpleQueue()  # None: the end
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        self.positions: Any = None  # how far a stream was read, in answers that were fetched
        self.missing = ""  # why there is nothing to read, from its last event
        self.has_answered = False
        self.lists = isinstance(collector, Lister)
        self.has_listed = False
        self.trouble: Fault | None = None  # its last one, with the time of the first
        self._failed_s = float("-inf")
        self._gap_after_s = gap_after_s
        self._busy = False
        self._hangs = False
        threading.Thread(target=self._work, name=f"collect-{self.name}", daemon=True).start()

    def submit(self, t_s: float) -> None:
        if not self._busy:
            self._busy = True
            self._requests.put(t_s)

    def answer(
        self, began_s: float, limit_s: float, t_s: float
    ) -> tuple[list[Observation], Fault | None]:
        """Return what a look that began then brought within a limit, and what went wrong."""
        left_s = max(0.0, began_s + limit_s - time.monotonic())
        try:
            got = self._answers.get(timeout=min(left_s, HUNG_S) if self._hangs else left_s)
        except queue.Empty:
            late = self._late(t_s, limit_s)
            self._note_trouble(late or self.trouble, t_s)
            return [], late
        self._busy = self._hangs = False
        self.has_answered = True
        self.has_listed = self.has_listed or got.has_listed
        if got.positions is not None:
            self.positions = got.positions
        if got.seen is not None:
            self.missing = _missing(got.seen, self.missing)
        missing = Fault(t_s=t_s, where=f"collector {self.name}", problem=self.missing)
        self._note_trouble(got.fault or (missing if self.missing else None), t_s)
        if got.seen is not None and _brings(got.seen):
            self.trouble = None
        return ([got.seen] if got.seen is not None else []), got.fault

    def resume(self, positions: Any) -> None:  # noqa: ANN401 - each collector has its own shape
        if isinstance(self._collector, Resumable):
            self._collector.resume(positions)

    def close(self) -> None:
        """Close the source, unless a read is still running: that might not end."""
        self._requests.put(None)
        running = self._busy and self._answers.empty()
        if running or (self._track is not None and self._track.is_reading):
            return
        closing = threading.Thread(target=_quietly, args=(self._collector.close,), daemon=True)
        closing.start()
        closing.join(timeout=CLOSE_S)

    def _note_trouble(self, fault: Fault | None, t_s: float) -> None:
        """Note a fault; a look without one may have been between two polls, and tells little."""
        if fault is not None:
            began_s = t_s if self.trouble is None else self.trouble.t_s
            self.trouble, self._failed_s = replace(fault, t_s=began_s), t_s
        elif t_s - self._failed_s >= self._gap_after_s:
            self.trouble = None

    def _late(self, t_s: float, limit_s: float) -> Fault | None:
        if self._hangs:
            return None  # reported already
        self._hangs = True
        what = "does not answer" if self.has_answered else "has not answered its first read"
        return Fault(
            t_s=t_s,
            where=f"collector {self.name}",
            problem=f"{what} within {limit_s:g} s; its samples are missing until it does",
            hint="look at what it reads from, or raise observe.timeout_s",
        )

    def _work(self) -> None:
        while (t_s := self._requests.get()) is not None:
            self._answers.put(self._answered(t_s))

    def _answered(self, t_s: float) -> _Answer:
        sampled: Observation | None = None
        try:
            sampled = self._sampled()
            seen = self._look(t_s, sampled)
            stream = self._collector if isinstance(self._collector, Resumable) else None
            positions = None if stream is None else stream.positions()
            listed = isinstance(self._collector, Lister) and self._collector.has_listed()
        # A plug's fault must not stop the others, nor take away what was sampled before it.
        except (Exception, pl.exceptions.PanicException) as fault:  # noqa: BLE001
            return _Answer(seen=sampled, fault=self._fault(fault, t_s))
        return _Answer(seen=seen, positions=positions, has_listed=listed)

    def _look(self, t_s: float, sampled: Observation | None) -> Observation:
        seen = self._collector.collect(t_s)
        check_other(seen.other, where=self.name)
        frames = [] if sampled is None else [*sampled.frames]
        events = [*(sampled.events if sampled else ()), *seen.events]
        for raw in seen.tables:
            frame, odd = self._normaliser.normalise(raw)
            frames.append(frame)
            events += odd
        return replace(seen, frame=empty_frame(), frames=tuple(frames), events=tuple(events))

    def _sampled(self) -> Observation | None:
        if self._track is None:
            return None
        self._pace.await_first(self._track)  # the first look brings the first tick
        frames, events = self._track.drain()
        return Observation(frames=frames, events=events)

    def _fault(self, fault: BaseException, t_s: float) -> Fault:
        where = f"collector {self.name}"
        if isinstance(fault, StewardError):
            return Fault(t_s=t_s, where=where, problem=str(fault), hint=fault.hint)
        problem = f"{type(fault).__name__}: {fault}"
        return Fault(t_s=t_s, where=where, problem=problem, hint="its other samples are kept")


def _with_possible_times(lines: tuple[LogLine, ...], now_s: float) -> tuple[LogLine, ...]:
    """Return lines with times that can be: one of the year 9999 is of now, and harms no other."""
    latest_s = now_s + LINE_AHEAD_S
    if all(0.0 <= line.t_s <= latest_s for line in lines):
        return lines
    return tuple(
        line if 0.0 <= line.t_s <= latest_s else replace(line, t_s=now_s) for line in lines
    )


def _missing(seen: Observation, before: str) -> str:
    """Return why a source is missing, from its last event, if it has brought nothing since."""
    reasons = [event.text for event in seen.events if event.kind == "collector.missing"]
    if reasons:
        return reasons[-1]
    return "" if _brings(seen) or seen.health or seen.lines or seen.spans else before


def _brings(seen: Observation) -> bool:
    """Return whether a look brought something that a source has to be there for."""
    return bool(seen.jobs or seen.cluster or seen.other.height or seen.tables)


def _quietly(close: Callable[[], None]) -> None:
    with suppress(Exception):  # it is closed anyway, and nothing could be done about it
        close()


def _merged(clusters: Sequence[Cluster]) -> Cluster:
    """Merge clusters of collectors: nodes of the same name are one with all its GPUs."""
    id_ = "+".join(sorted({cluster.id for cluster in clusters}))
    return merge_clusters(clusters, id_=id_, same_node=_joined)


def _joined(a: Node, b: Node) -> Node:
    """Join two descriptions of a node; of each GPU, prefer the one with its memory."""
    gpus = {gpu.id: gpu for gpu in a.gpus}
    for gpu in b.gpus:
        if gpu.id not in gpus or gpu.model.memory_bytes or not gpus[gpu.id].model.memory_bytes:
            gpus[gpu.id] = gpu
    return Node(
        id=a.id,
        gpus=tuple(gpus.values()),
        cpus=max(a.cpus, b.cpus),
        memory_bytes=max(a.memory_bytes, b.memory_bytes),
        switch=a.switch or b.switch,
    )
