"""The smallest moments of pages, and what is expected of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from page_tiers import system_of
from steward.model.memory.moment import MemoryMoment
from steward.model.memory.snapshot import MemorySnapshot
from steward.model.memory.state import MemoryState
from steward.model.memory.tiers import MemorySystem
from steward.model.memory.view import ArmBeliefs, LinkState, MemoryForecasts, MemoryView

BLOCK = 2 << 20


def view_of(
    tiers: Sequence[int],
    *,
    near: int,
    counts: Sequence[int] = (),
    epoch: int = 0,
    link: LinkState | None = None,
    pinned: Iterable[int] = (),
) -> MemoryView:
    tier = np.array(tiers, np.int8)
    count = np.array(counts or [0] * len(tiers), np.int32)
    return MemoryView(
        t_s=float(epoch),
        epoch=epoch,
        system=system_of(near, 10_000),
        tier=tier,
        count=count,
        idle=np.where(count > 0, 0, 1 + epoch).astype(np.int32),
        touched=np.flatnonzero(count).astype(np.int32),
        used=np.array([np.sum(tier == 0), np.sum(tier == 1)], np.int64),
        link=link or LinkState(),
        pinned=frozenset(pinned),
    )


def forecasts(
    accesses: Sequence[float] | np.ndarray[Any, Any],
    *,
    saved_s: float = 1e-6,
    after_touch: Sequence[float] | None = None,
    arms: ArmBeliefs | None = None,
    **more: float,
) -> MemoryForecasts:
    return MemoryForecasts(
        accesses=np.array(accesses, np.float64),
        saved_s=saved_s,
        after_touch=None if after_touch is None else np.array(after_touch),
        arms=arms,
        **more,
    )


def snapshot(
    *blocks: tuple[int, int, int], t_s: float = 1.0, pid: int = 7, **more: Any
) -> MemorySnapshot:
    """Return blocks of 512 pages: present, swapped, used."""
    start = np.arange(len(blocks), dtype=np.int64) * BLOCK + (1 << 30)
    table = np.array(blocks, np.int64).reshape(-1, 3)
    return MemorySnapshot(
        t_s=t_s,
        pid=pid,
        started_s=100.0,
        name="program",
        start=start,
        end=start + BLOCK,
        present=table[:, 0],
        swapped=table[:, 1],
        used=table[:, 2],
        huge=np.zeros(len(blocks), np.int64),
        swap_free_bytes=more.pop("swap_free_bytes", 1 << 40),
        **more,
    )


def moment_of(
    seen: MemorySnapshot, *, near: int = 4, state: MemoryState | None = None
) -> MemoryMoment:
    from steward.model.event import Observation

    folded = state or MemoryState(blocks_system(near))
    folded.fold(Observation(memory=seen))
    return folded.view(seen.t_s)


def blocks_system(near: int) -> MemorySystem:
    from steward.config.memory_loop import system_of as system_of_blocks

    return system_of_blocks(near * BLOCK)
