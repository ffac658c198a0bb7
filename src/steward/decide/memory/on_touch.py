"""Policies that act at the access itself, as kernels and caches do: what others do today.

What they do is the table of `OnTouch`; the simulator carries it out at each access.
"""

from __future__ import annotations

from dataclasses import dataclass

from steward.model.memory.view import MemoryView, Moves, OnTouch, no_moves

__all__ = ["AutoNuma", "AutoNumaTiering", "Lfu", "Lru", "Nothing", "Tpp", "TwoQueue"]

SCAN_SHARE = 0.125  # of all pages are unmapped in an epoch: each page every eight
NOTHING = OnTouch()
FIRST_FAULT = OnTouch(mode="fault", scan_share=SCAN_SHARE, near_faults=True, watermark_share=0.02)
HOT_FAULTS = OnTouch(
    mode="fault",
    scan_share=SCAN_SHARE,
    needed=2,
    window_epochs=12,
    watermark_share=0.02,
    rate_pages=64,
)
SECOND_FAULT = OnTouch(
    mode="fault", scan_share=SCAN_SHARE, needed=2, window_epochs=32, watermark_share=0.05
)
BY_RECENCY = OnTouch(mode="lru")
BY_TWO_QUEUES = OnTouch(mode="two-queue")
BY_FREQUENCY = OnTouch(mode="lfu")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Static:
    """Moves nothing at the end of an epoch."""

    name: str = ""
    on_touch: OnTouch = NOTHING

    def migrate(self, _: MemoryView) -> Moves:
        """Return nothing: all was done at the accesses."""
        return no_moves()


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing(_Static):
    """Leaves each page where it was first put: near while there is room."""

    name: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoNuma(_Static):
    """Promotes at the first hint fault where there is room; the kernel reclaims near memory."""

    name: str = "autonuma"
    on_touch: OnTouch = FIRST_FAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoNumaTiering(_Static):
    """As `autonuma`, for far pages only, hot ones (two faults soon), with a limited rate."""

    name: str = "autonuma-tiering"
    on_touch: OnTouch = HOT_FAULTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Tpp(_Static):
    """Promotes at the second hint fault, and demotes early to keep room (Maruf et al. 2023)."""

    name: str = "tpp"
    on_touch: OnTouch = SECOND_FAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class Lru(_Static):
    """Keeps the most recently used pages near."""

    name: str = "lru"
    on_touch: OnTouch = BY_RECENCY


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoQueue(_Static):
    """Keeps pages near that are used again, after a first queue (Johnson and Shasha 1994)."""

    name: str = "two-queue"
    on_touch: OnTouch = BY_TWO_QUEUES


@dataclass(frozen=True, slots=True, kw_only=True)
class Lfu(_Static):
    """Keeps frequently used pages near; older uses count half after each round."""

    name: str = "lfu"
    on_touch: OnTouch = BY_FREQUENCY
