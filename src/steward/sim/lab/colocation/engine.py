"""The clockwork: events in their order, then one look by the policy, and what follows from it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heappop

import numpy as np

from steward.decide.scheduling.colocation.interface import (
    ColocationView,
    FreeSpace,
    Pair,
    Profile,
)
from steward.model.trace import Trace
from steward.sim.lab.colocation.inputs import ReplayInputs
from steward.sim.lab.colocation.jobs import Jobs
from steward.sim.lab.colocation.operations import Operations
from steward.sim.lab.colocation.running import Agenda, Gang, PairEventOrder, Running

__all__ = ["Run"]

_LATELY_S = 86_400.0  # arrivals in this time give the rate to expect
_AT_LEAST_S = 600.0


class Run:
    """One replay. A look is due when something has happened that a choice could depend on."""

    def __init__(self, stage: ReplayInputs) -> None:
        self.speeds, self.places, self.policy = stage.speeds, stage.places, stage.policy
        self.profiling = stage.profiling
        self.jobs = Jobs(stage)
        self.agenda = Agenda()
        self.running = Running(stage.trace, stage.speeds, self.agenda)
        self.operations = Operations(stage, self.jobs, self.running, self.agenda)
        self.decisions = 0
        self.evicted = 0  # from the profiling partition, unfinished
        self._now_s = 0.0
        self._due = False  # a look
        self._settled = True  # nothing happened outside the partition since the last look
        self._saves_every_s = stage.settings.saves_every_s
        self._changes = sorted(stage.machines.changes, key=lambda change: (change.t_s, change.node))
        self._total_gpus = stage.machines.total_gpus
        self._submit_s: list[float] = stage.trace.submit_s.tolist()
        self._lately: deque[float] = deque()
        self._tried: list[Pair] = []
        self._parts = stage.parts
        self._partition_down: set[int] = set()
        self._prepare(stage.trace)

    def _prepare(self, trace: Trace) -> None:
        wants = set(self.jobs.want)
        here = {want for want in wants if self.places.could_ever(want)}
        self.nowhere = [want not in here for want in self.jobs.want]
        self._profiled = set()
        if self.profiling is not None and self.profiling.gpus > 0:
            self._profiled = {w for w in here if self.places.fits(w, profiling=True)}
        self.waits_for: list[int] = np.bincount(trace.after[:, 0], minlength=len(trace)).tolist()
        self._followers: dict[int, list[int]] = {}
        for job, before in trace.after.tolist():
            self._followers.setdefault(before, []).append(job)
        for i, change in enumerate(self._changes):
            self.agenda.add(change.t_s, PairEventOrder.CHANGE, i)
        self._expect(0)

    def _expect(self, job: int) -> None:
        """Note the next arrival: one at a time, so that the agenda stays short."""
        if job < len(self._submit_s):
            self.agenda.add(self._submit_s[job], PairEventOrder.ARRIVAL, job)

    def advance(self) -> None:
        """Go on until nothing more happens."""
        events = self.agenda.events
        happen = {
            int(PairEventOrder.END): self._end,
            int(PairEventOrder.CHANGE): self._change,
            int(PairEventOrder.ARRIVAL): self._arrive,
            int(PairEventOrder.PROFILED): self._profiled_now,
            int(PairEventOrder.TRIED): self._tried_now,
        }
        while events:
            self._now_s = now_s = events[0][0]
            while events and events[0][0] == now_s:
                _, rank, _, subject, stamp = heappop(events)
                happen[rank](subject, stamp)
            if self._due:
                self._due = False
                self._look()

    def _stir(self) -> None:
        """Note that something happened in the cluster."""
        self._due, self._settled = True, False

    def _end(self, job: int, stamp: int) -> None:
        if stamp != self.running.stamp[job]:
            return
        self._due = True
        self._settled &= self.operations.leave(job, self._now_s).profiling
        self.jobs.end_s[job] = self._now_s
        self.jobs.past.remember(job, self.jobs.duration_s[job])
        for follower in self._followers.get(job, ()):
            self.waits_for[follower] -= 1
            if self.waits_for[follower] == 0 and self._submit_s[follower] <= self._now_s:
                self._come(follower)

    def _arrive(self, job: int, _: int) -> None:
        self._expect(job + 1)
        if self.waits_for[job] == 0:
            self._come(job)

    def _come(self, job: int) -> None:
        if self.nowhere[job]:
            return
        self._lately.append(self._now_s)
        self.jobs.come(job)
        self._line_up(job)

    def _line_up(self, job: int) -> None:
        """Queue a job; if others are before it, nothing follows."""
        jobs, most = self.jobs, self.profiling.most_gpus if self.profiling is not None else 0.0
        looked_at = not jobs.known[job] and 0.0 < jobs.gpus[job] <= most
        if looked_at and jobs.want[job] in self._profiled and not self._partition_down:
            self._due |= jobs.wait_for_profiling(job)
        elif jobs.wait(job):
            self._stir()

    def _profiled_now(self, job: int, stamp: int) -> None:
        """Learn how a job bears sharing; one in the partition makes way and starts anew."""
        if stamp != self.jobs.starts[job] or self.running.gang[job] is None:
            return
        gang = self.operations.gang_of(job)
        if gang.held.profiling:
            self._due = True
            self.operations.leave(job, self._now_s)
            self._lose(job, self._done_s(job))
            self.evicted += 1
            self.jobs.learn(job)
            self._line_up(job)
            return
        self._stir()
        if gang.other >= 0:
            self.jobs.learn(job)
        else:
            self.jobs.be_alone_no_more(job)
            self.jobs.learn(job)
            self.jobs.be_alone(job, gang.held.kind)

    def _tried_now(self, one: int, other: int) -> None:
        gang = self.running.gang[one]
        if gang is not None and (gang.one, gang.other) == (one, other):
            self._tried.append(self._pair(gang))
            self._stir()

    def _done_s(self, job: int) -> float:
        return self.running.begun_with_s[job] - self.running.left_s[job]

    def _lose(self, job: int, work_s: float) -> None:
        self.running.left_s[job] += work_s
        self.jobs.lost_s[job] += work_s

    def _change(self, i: int, _: int) -> None:
        """Add or remove a node; its jobs are queued again, the youngest first."""
        change = self._changes[i]
        self.places.change(change.node, up=change.up)
        self._stir()
        if change.up:
            self._partition_down.discard(change.node)
            return
        if self._parts[change.node] > 0:
            self._partition_down.add(change.node)
            self._skip_profiling()
        for gang in reversed(list(self.operations.gangs)):
            if self.places.touches(gang.held, change.node):
                for job in gang.jobs:
                    self._interrupt(job)

    def _skip_profiling(self) -> None:
        """Move the jobs queued for the partition on: it does not exist."""
        for _, _, job in list(self.jobs.unprofiled.by_kind.get(0, ())):
            self.jobs.stop_waiting_for_profiling(job)
            self.jobs.wait(job)

    def _interrupt(self, job: int) -> None:
        profiling = self.operations.gang_of(job).held.profiling
        self.operations.leave(job, self._now_s)
        done_s, every_s = self._done_s(job), self._saves_every_s
        unsaved_s = done_s % every_s if every_s > 0.0 and not profiling else done_s
        self._lose(job, unsaved_s + self.jobs.price_s[job])
        self.jobs.stops[job] += 1
        self._line_up(job)

    def _look(self) -> None:
        while not self._settled or self.jobs.unprofiled.by_kind:
            self.decisions += 1
            choices = self.policy.decide(self._moment())
            self._tried.clear()
            self._settled = True
            for choice in choices:
                self.operations.carry_out(choice, self._now_s)
                self._settled &= isinstance(choice, Profile)
            if not choices:
                return

    def _moment(self) -> ColocationView:
        jobs = self.jobs
        return ColocationView(
            t_s=self._now_s,
            total_gpus=self._total_gpus,
            arrivals_per_s=self._arrivals_per_s(),
            settled=self._settled,
            unprofiled=jobs.unprofiled.by_kind.get(0, ()),
            waiting=jobs.waiting.by_kind,
            alone=jobs.alone.by_kind,
            solos=jobs.solos.by_kind,
            free_gpus=self.places.free_gpus,
            tried=tuple(self._tried),
            fits=self._fits,
            fits_profiling=self._fits_profiling,
            may_join=self._may_join,
            can_share=self._can_share,
            pair_speeds=self._pair_speeds,
            pairs=self._pairs,
            floor=self._floor,
        )

    def _arrivals_per_s(self) -> float:
        lately = self._lately
        while lately and lately[0] < self._now_s - _LATELY_S:
            lately.popleft()
        elapsed_s = min(max(self._now_s - self._submit_s[0], _AT_LEAST_S), _LATELY_S)
        return len(lately) / elapsed_s

    def _fits(self, job: int) -> bool:
        return self.places.fits(self.jobs.want[job])

    def _fits_profiling(self, job: int) -> bool:
        return self.places.fits(self.jobs.want[job], profiling=True)

    def _may_join(self, job: int, other: int) -> bool:
        return self.places.may_join(self.jobs.want[job], self.operations.gang_of(other).held)

    def _can_share(self, job: int, other: int) -> bool:
        kind = self.operations.gang_of(other).held.kind
        return self.speeds.beside(job, other, kind) > 0.0 < self.speeds.beside(other, job, kind)

    def _pair_speeds(self, job: int, other: int) -> tuple[float, float]:
        return self.speeds.as_measured(job, other, self.operations.gang_of(other).held.kind)

    def _pair(self, gang: Gang) -> Pair:
        return Pair(
            one=gang.one,
            other=gang.other,
            speed_one=self.running.share_of(gang, gang.one),
            speed_other=self.running.share_of(gang, gang.other),
            takes_turns=gang.takes_turns,
        )

    def _pairs(self) -> Sequence[Pair]:
        return [self._pair(gang) for gang in self.operations.paired]

    def _floor(self, job: int) -> FreeSpace:
        rooms = self.places.rooms(self.jobs.want[job])
        movable: dict[int, list[tuple[int, int]]] = {}
        if rooms.free:
            for gang in self.operations.gangs:
                whole = self.jobs.gpus[gang.one] >= 1.0
                if gang.other < 0 and gang.held.nodes == 1 and whole and not gang.held.profiling:
                    gpus = int(self.jobs.gpus[gang.one])
                    movable.setdefault(gang.held.node, []).append((gpus, gang.one))
        return FreeSpace(rooms.free, rooms.group, movable)
