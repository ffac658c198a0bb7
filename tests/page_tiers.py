"""A slow simulator of pages in tiers, written from its description and not from its code."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from steward.model.memory.tiers import MemorySystem, MoveCosts, Tier
from steward.model.memory.trace import AccessTrace, trace_of
from steward.model.memory.view import Moves, OnTouch
from steward.sim.memory.background import Background


def system_of(
    near: int, far: int, *, middle: int = 0, lines: int = 1, costs: MoveCosts | None = None
) -> MemorySystem:
    tiers = [Tier(name="near", latency_s=1e-7, pages=near)]
    if middle:
        tiers.append(Tier(name="middle", latency_s=3e-7, pages=middle))
    tiers.append(Tier(name="far", latency_s=6e-7, pages=far, linked=True))
    return MemorySystem(tiers=tuple(tiers), lines=lines, costs=costs or MoveCosts())


def accesses(*pages: int, think_s: float = 1e-7) -> AccessTrace:
    return trace_of("given", np.array(pages, np.int64), np.full(len(pages), think_s))


@dataclass
class SlowTiers:
    """One access at a time, with dictionaries."""

    trace: AccessTrace
    system: MemorySystem
    on_touch: OnTouch
    background: Background
    now: float = 0.0
    stall: float = 0.0
    bulk_free: float = 0.0
    epoch: int = 0
    moved: int = 0
    faults: int = 0
    scan_at: int = 0
    rate_used: int = 0
    tier: dict[int, int] = field(default_factory=dict)
    ready: dict[int, float] = field(default_factory=dict)
    unmapped: set[int] = field(default_factory=set)
    seen_faults: dict[int, int] = field(default_factory=dict)
    fault_epoch: dict[int, int] = field(default_factory=dict)
    recent: OrderedDict[int, None] = field(default_factory=OrderedDict)
    touched: set[int] = field(default_factory=set)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.stall += seconds

    def load(self, t_s: float) -> float:
        shares = self.background.share
        return float(shares[int(t_s / self.background.slot_s) % len(shares)])

    def used(self, tier: int) -> int:
        return sum(each == tier for each in self.tier.values())

    def room(self, tier: int) -> int:
        return self.system.tiers[tier].pages - self.used(tier)

    def access(self, page: int, think_s: float) -> None:  # noqa: C901 - the whole description
        self.now += think_s
        if page not in self.tier:
            places = range(len(self.system.tiers))
            self.tier[page] = next(each for each in places if self.room(each) > 0)
            if self.tier[page] == 0:
                self.recent[page] = None
        self.touched.add(page)
        if page in self.unmapped:
            self.fault(page)
        self.wait(max(0.0, self.ready.get(page, 0.0) - self.now))
        tier = self.tier[page]
        hit = self.system.lines * self.system.tiers[tier].latency_s / self.system.parallel
        if self.system.tiers[tier].linked:
            load = self.load(self.now)
            free = 1.0 - load
            rate = self.system.link_bytes_per_s * free
            hit += self.system.lines * 64 / rate + self.system.packet_s * load / free
            if self.bulk_free > self.now:
                hit += 0.5 * self.system.page_bytes / rate
        self.wait(hit)
        if tier == 0:
            self.recent.move_to_end(page)
        elif self.on_touch.mode == "lru":
            if self.room(0) <= 0:
                victim = next(iter(self.recent), None)
                if victim is None or not self.demote(victim):
                    return
            self.promote(page)

    def fault(self, page: int) -> None:
        self.unmapped.discard(page)
        self.faults += 1
        self.wait(self.system.costs.fault_s)
        if self.tier[page] == 0:
            return
        if self.epoch - self.fault_epoch.get(page, -(2**30)) > self.on_touch.window_epochs:
            self.seen_faults[page] = 0
        self.seen_faults[page] = self.seen_faults.get(page, 0) + 1
        self.fault_epoch[page] = self.epoch
        few = self.seen_faults[page] < self.on_touch.needed
        if few or self.rate_used >= self.on_touch.rate_pages or self.room(0) <= 0:
            return
        self.rate_used += 1
        self.seen_faults[page] = 0
        self.promote(page)

    def copied(self, *tiers: int) -> float:
        page_bytes, rate = self.system.page_bytes, self.system.link_bytes_per_s
        if not any(self.system.tiers[tier].linked for tier in tiers):
            return self.now + page_bytes / rate
        begin = max(self.now, self.bulk_free)
        self.bulk_free = begin + page_bytes / (rate * (1.0 - self.load(begin)))
        return self.bulk_free

    def promote(self, page: int) -> None:
        self.ready[page] = self.copied(self.tier[page], 0)
        self.tier[page] = 0
        self.recent[page] = None
        self.moved += 1
        self.wait(self.system.costs.move_s)

    def demote(self, page: int) -> bool:
        for tier in range(1, len(self.system.tiers)):
            if self.room(tier) > 0:
                self.ready[page] = self.copied(0, tier)
                self.tier[page] = tier
                self.recent.pop(page, None)
                self.moved += 1
                self.wait(self.system.costs.move_s)
                return True
        return False

    def end_epoch(self, moves: Moves) -> None:  # noqa: C901 - likewise
        if self.on_touch.watches:
            self.wait(len(self.touched) * self.system.costs.watch_s)
        self.touched = set()
        self.epoch += 1
        self.rate_used = 0
        pages = self.trace.pages
        if self.on_touch.mode == "fault":
            for _ in range(min(int(np.ceil(self.on_touch.scan_share * pages)), pages)):
                page, self.scan_at = self.scan_at, (self.scan_at + 1) % pages
                tier = self.tier.get(page, -1)
                if tier > 0 or (tier == 0 and self.on_touch.near_faults):
                    self.unmapped.add(page)
            kept = int(self.on_touch.watermark_share * self.system.tiers[0].pages)
            while self.room(0) < kept and self.used(0) > 0:
                if not self.demote(next(iter(self.recent))):
                    break
        for page in moves.demote.tolist():
            assert self.demote(page)
        for page in moves.promote.tolist():
            self.promote(page)
        if self.on_touch.mode == "trap":
            self.unmapped = set(moves.trap.tolist())
