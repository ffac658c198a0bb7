"""Builds the loop that watches one process's memory and may move it, every tenth of a second."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steward.act.actuators.dry_run import DryRun
from steward.act.actuators.process_memory import NodeMemory, SwapMemory
from steward.act.desk import Desk
from steward.act.guard import Guard, Limits
from steward.act.memory.outcomes import MemoryVerifier
from steward.clients.linux.pages.blocks import BLOCK_BYTES, ProcessPages
from steward.clock import Clock
from steward.config.assemble import LEARNED
from steward.decide.memory import PAGE_POLICIES
from steward.decide.memory.migrate_blocks import MigrateBlocks
from steward.learn.estimators.pages.blocks import BlockMigration
from steward.loop import Loop
from steward.model.decision import Autonomy
from steward.model.memory.moment import MemoryMoment
from steward.model.memory.state import MemoryState
from steward.model.memory.tiers import MemorySystem, MoveCosts, Tier
from steward.observe.collectors.process_memory import ProcessMemory
from steward.observe.watch import Watch
from steward.registry import resolve
from steward.stages import Stages
from steward.store.atomic import write_atomic
from steward.store.journal import open_journal
from steward.store.learned import LearnedStates
from steward.store.recording import Recording

__all__ = ["EVERY_S", "FOLDER", "MemoryWatch", "WatchOptions", "read_statuses", "status_of"]

EVERY_S = 0.1
FOLDER = "memory"  # of the store
# As measured on zram with lzo-rle (benchmarks/memory_live.py): one 4 KiB page each way.
SWAP_PAGE_S, SWAP_BYTES_PER_S = 4.0e-6, 1.0e9
_KEPT_POINTS = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """What to watch, and how far steward may go."""

    pid: int
    near_bytes: int  # that the process may have in memory; more is room to be made
    policy: str = "indigo"
    autonomy: Autonomy = Autonomy.ADVISE
    far_node: int | None = None  # move between NUMA nodes 0 and this one, not to swap
    every_s: float = EVERY_S


class MemoryWatch:
    """A loop with the two ends that its status is read from."""

    def __init__(self, options: WatchOptions, folder: Path, journal: str, *, clock: Clock) -> None:
        self.options = options
        self.folder = folder / FOLDER
        pages = ProcessPages(options.pid)
        self.estimator = BlockMigration()
        self.verifier = MemoryVerifier()
        self.history: list[tuple[float, float, float]] = []
        self.moved = {"promote": 0, "demote": 0, "pin": 0}
        policy = resolve("page-policy", options.policy, PAGE_POLICIES)()
        self.actuator = _actuator(options)
        stages = Stages(
            watch=Watch([ProcessMemory(pages)], timeout_s=5.0),
            moment=MemoryState(system_of(options.near_bytes)),
            miners=(),
            estimators=(self.estimator,),
            detectors=(),
            policies=[MigrateBlocks(policy=policy)],
            desk=Desk(Guard(Limits(autonomy=options.autonomy)), self.actuator),
            verifier=self.verifier,
            domain="memory",
        )
        self.loop: Loop[MemoryMoment] = Loop(
            stages,
            journal=open_journal(journal),
            recording=Recording(self.folder, events=False),
            clock=clock,
            every_s=options.every_s,
            learned=LearnedStates(self.folder / LEARNED, clock=clock),
        )

    def turn(self) -> MemoryMoment:
        """Take one turn and return its moment."""
        self.loop.turn()
        view = self.loop.view
        if view.moved is not None:
            self.moved["promote"] += len(view.moved.promote)
            self.moved["demote"] += len(view.moved.demote)
        if not view.unknown:
            point = (view.t_s, float(view.snapshot.near_bytes), float(view.snapshot.far_bytes))
            self.history = [*self.history[-_KEPT_POINTS + 1 :], point]
        return view

    def write_status(self) -> dict[str, Any]:
        """Write what the page shows, and return it."""
        found = status_of(self)
        file = self.folder / "status" / f"{self.options.pid}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, json.dumps(found).encode())
        return found

    def close(self) -> None:
        """Make everything durable and close the files."""
        self.loop.close()


def system_of(near_bytes: int) -> MemorySystem:
    """Return memory and swap as tiers of blocks."""
    near = Tier(name="memory", latency_s=1e-7, pages=max(1, near_bytes // BLOCK_BYTES))
    far = Tier(name="swap", latency_s=SWAP_PAGE_S, pages=1 << 40)
    costs = MoveCosts(move_s=BLOCK_BYTES / SWAP_BYTES_PER_S, watch_s=1e-6)
    return MemorySystem(
        tiers=(near, far),
        page_bytes=BLOCK_BYTES,
        link_bytes_per_s=SWAP_BYTES_PER_S,
        parallel=1.0,
        costs=costs,
    )


def status_of(watch: MemoryWatch) -> dict[str, Any]:
    """Return how a watched process is doing, as JSON values."""
    view, loop = watch.loop.view, watch.loop
    snapshot, columns = view.snapshot, view.view
    hot = columns.count > 0
    return {
        "t_s": view.t_s,
        "pid": watch.options.pid,
        "name": snapshot.name,
        "policy": watch.options.policy,
        "autonomy": watch.options.autonomy.value,
        "problem": view.unknown,
        "turns": loop.status.turns,
        "near_bytes": snapshot.near_bytes,
        "far_bytes": snapshot.far_bytes,
        "near_limit_bytes": columns.system.tiers[0].pages * BLOCK_BYTES,
        "blocks": len(snapshot.start),
        "hot_blocks": int(hot.sum()),
        "hot_far_blocks": int((hot & (columns.tier == 1)).sum()),
        "huge_pages_share": _share(int(snapshot.huge.sum()), int(snapshot.present.sum())),
        "tracked_share": snapshot.tracked_share,
        "pinned_blocks": len(columns.pinned),
        "promoted_blocks": watch.moved["promote"],
        "demoted_blocks": watch.moved["demote"],
        "estimated_saved_s": watch.estimator.pages.saved_s,
        "measured_saved_s": watch.verifier.gained_s,
        "idle": _idle_levels(watch),
        "history": watch.history,
        "faults": [each.problem for each in loop.status.faults[-3:]],
    }


def read_statuses(folder: Path) -> list[Mapping[str, Any]]:
    """Return what processes that are watched from this store were like last, newest first."""
    found: list[Mapping[str, Any]] = []
    for file in sorted((folder / FOLDER / "status").glob("*.json")):
        try:
            each = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(each, dict) and isinstance(each.get("t_s"), (int, float)):
            found.append(each)
    return sorted(found, key=lambda each: -float(each["t_s"]))


def _idle_levels(watch: MemoryWatch) -> list[list[int]]:
    """Return how many near and far blocks were used since how many looks: 0, 1, 2-3, 4-7, …."""
    columns = watch.loop.view.view
    found = []
    low = 0
    while low <= 4096:
        high = max(1, 2 * low)
        level = (columns.idle >= low) & (columns.idle < high)
        near = int((level & (columns.tier == 0)).sum())
        found.append([low, near, int((level & (columns.tier == 1)).sum())])
        low = high
    return found


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _actuator(options: WatchOptions) -> DryRun | SwapMemory | NodeMemory:
    if options.autonomy.rank <= Autonomy.ADVISE.rank:
        return DryRun()
    if options.far_node is not None:
        return NodeMemory(near=0, far=options.far_node)
    return SwapMemory()
