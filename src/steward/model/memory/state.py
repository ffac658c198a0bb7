"""What the memory domain knows: snapshots of a process are folded in, moments come out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from steward.model.actions import Demote, Pin, Promote
from steward.model.decision import Decision, Receipt
from steward.model.event import Observation
from steward.model.memory.moment import MemoryMoment
from steward.model.memory.snapshot import MemorySnapshot
from steward.model.memory.tiers import MemorySystem
from steward.model.memory.view import LinkState, MemoryView, Moves

__all__ = ["MemoryState"]

# What was read back is in the swap cache, and shown as swapped until it is touched.
FETCHED_FOR_S = 30.0

_NOTHING_YET = MemorySnapshot(t_s=0.0, pid=0, started_s=0.0, name="", problem="nothing was read")


class MemoryState:
    """The memory of one process. Rows of blocks stay for as long as the process lives.

    A block counts as near where more of it is in memory than in swap. Another process, or the same
    number used again, begins anew.
    """

    def __init__(self, system: MemorySystem, *, stale_after_s: float = 5.0) -> None:
        self._system = system
        self._stale_after_s = stale_after_s
        self._snapshot = _NOTHING_YET
        self._row_of: dict[int, int] = {}
        self._idle = np.zeros(0, np.int32)
        self._pinned: set[int] = set()  # first addresses
        self._reserved: frozenset[str] = frozenset()
        self._promoted: list[int] = []  # first addresses, since the last moment
        self._demoted: list[int] = []
        self._fetched_s: dict[int, float] = {}  # first addresses: when they were promoted
        self._view: MemoryView | None = None
        self._epoch = 0
        self._fresh = False

    def fold(self, seen: Observation) -> None:
        """Take in one observation."""
        if seen.memory is None:
            return
        if seen.memory.process != self._snapshot.process:
            self._forget()
        if seen.memory.problem:
            self._snapshot = replace(self._snapshot, problem=seen.memory.problem)
            return
        self._snapshot = seen.memory
        self._fresh = True
        for start in seen.memory.start.tolist():
            self._row_of.setdefault(start, len(self._row_of))

    def _forget(self) -> None:
        self._row_of = {}
        self._idle = np.zeros(0, np.int32)
        self._pinned, self._promoted, self._demoted = set(), [], []
        self._fetched_s = {}
        self._view, self._epoch = None, 0

    def apply(self, decision: Decision, receipt: Receipt) -> None:
        """Note which blocks were moved or pinned."""
        if receipt.result not in ("done", "partly"):
            return
        match decision.action:
            case Promote(blocks=blocks):
                self._promoted += [start for start, _ in blocks]
                self._fetched_s |= dict.fromkeys((start for start, _ in blocks), receipt.t_s)
            case Demote(blocks=blocks):
                self._demoted += [start for start, _ in blocks]
                for start, _ in blocks:
                    self._fetched_s.pop(start, None)
            case Pin(blocks=blocks, pinned=True):
                self._pinned |= {start for start, _ in blocks}
            case Pin(blocks=blocks):
                self._pinned -= {start for start, _ in blocks}

    def reserve(self, claims: Iterable[str]) -> None:
        """Set about which blocks nothing new should be decided."""
        self._reserved = frozenset(claims)

    def view(self, t_s: float) -> MemoryMoment:
        """Return the moment as it is at `t_s`."""
        snapshot = self._snapshot
        before, moved = self._view, self._moved()
        rows = np.array(list(self._row_of), np.int64)
        view = self._columns(t_s, [self._row_of[start] for start in snapshot.start.tolist()])
        self._view, self._promoted, self._demoted = view, [], []
        return MemoryMoment(
            t_s=t_s,
            snapshot=snapshot,
            view=view,
            rows=rows,
            row_of=self._row_of,
            before=before,
            moved=moved,
            reserved=self._reserved,
            unknown=self._unknown(t_s),
        )

    def _moved(self) -> Moves | None:
        if not self._promoted and not self._demoted:
            return None
        promote, demote = (
            np.array([self._row_of[start] for start in starts if start in self._row_of], np.int64)
            for starts in (self._promoted, self._demoted)
        )
        return Moves(promote=promote, demote=demote)

    def _columns(self, t_s: float, places: list[int]) -> MemoryView:
        snapshot, count = self._snapshot, len(self._row_of)
        tier = np.full(count, -1, np.int8)
        used = np.zeros(count, np.int32)
        at = np.array(places, np.int64)
        tier[at] = np.where(snapshot.present >= snapshot.swapped, 0, 1)
        self._fetched_s = {
            start: s for start, s in self._fetched_s.items() if t_s - s <= FETCHED_FOR_S
        }
        tier[[self._row_of[start] for start in self._fetched_s if start in self._row_of]] = 0
        tier[at[(snapshot.present + snapshot.swapped) == 0]] = -1
        idle = np.concatenate((self._idle, np.zeros(count - len(self._idle), np.int32)))
        if self._fresh:
            used[at] = snapshot.used.astype(np.int32)
            seen = np.ones(count, np.bool_)
            if snapshot.looked is not None:
                seen[at] = snapshot.looked
            idle = np.where(used > 0, 0, idle + seen).astype(np.int32)
            self._epoch += 1
        self._idle, self._fresh = idle, False
        return MemoryView(
            t_s=t_s,
            epoch=self._epoch,
            system=self._system,
            tier=tier,
            count=used,
            idle=idle,
            touched=np.flatnonzero(used).astype(np.int32),
            used=np.array([np.sum(tier == 0), np.sum(tier == 1)], np.int64),
            link=self._link(tier, used),
            pinned=frozenset(self._row_of[s] for s in self._pinned if s in self._row_of),
        )

    def _link(self, tier: NDArray[np.int8], used: NDArray[np.int32]) -> LinkState:
        total = int(used.sum())
        far = int(used[tier == 1].sum())
        return LinkState(far_share=far / total if total else 0.0)

    def _unknown(self, t_s: float) -> str:
        if self._snapshot.problem:
            return self._snapshot.problem
        silent_s = t_s - self._snapshot.t_s
        stale = silent_s > self._stale_after_s
        return f"nothing was read for {silent_s:.0f} s" if stale else ""
