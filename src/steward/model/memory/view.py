"""One moment of pages in tiers, in columns: what page policies look at."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from steward.model.memory.tiers import MemorySystem

__all__ = [
    "NOWHERE",
    "ArmBeliefs",
    "LinkState",
    "MemoryForecasts",
    "MemoryView",
    "Moves",
    "OnTouch",
    "PageEstimator",
    "PagePolicy",
    "no_moves",
]

NOWHERE = -1  # the tier of a page that was never touched
Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkState:
    """What was measured of the link and of far memory in the last epoch."""

    load_share: float = 0.0  # taken by others
    far_access_s: float = 0.0  # mean stall of far accesses, one after the other; 0: unknown
    far_share: float = 0.0  # of accesses
    measured_s: float = 0.0  # how long that was measured: the epoch
    ping_pong_share: float = 0.0  # of promoted pages that had been demoted a short while ago


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArmBeliefs:
    """What is believed of each arm's reward in this moment, and one draw from it."""

    mean: Floats
    deviation: Floats
    drawn: Floats
    seen: Floats  # rewards behind each, older ones counting less


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryForecasts:
    """What is expected: of each page, how often it is going to be accessed while it is near.

    `saved_s` is by how much an access to near memory stalls less, over the time that a page stays;
    `new_pages` are touched for the first time in the next epoch, `new_accesses` times each.
    """

    accesses: Floats
    saved_s: float
    new_pages: float = 0.0
    new_accesses: float = 0.0
    after_touch: Floats | None = None  # accesses of a page from its next one on, if that is now
    trap_pages: float = 0.0  # promotions at an access in the next epoch
    arms: ArmBeliefs | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryView:
    """Pages by row, after one epoch. `touched` are the rows with accesses in it."""

    t_s: float
    epoch: int
    system: MemorySystem
    tier: NDArray[np.int8]
    count: NDArray[np.int32]  # accesses in the last epoch
    idle: NDArray[np.int32]  # epochs since the last access
    touched: NDArray[np.int32]
    used: NDArray[np.int64]  # pages in each tier
    trapped: int = 0  # pages that were promoted at an access in the last epoch
    link: LinkState = field(default_factory=LinkState)
    pinned: frozenset[int] = frozenset()
    forecasts: MemoryForecasts | None = None

    @property
    def free_near(self) -> int:
        """Return how many pages the nearest tier has room for."""
        return int(self.system.tiers[0].pages - self.used[0])

    def with_forecasts(self, forecasts: MemoryForecasts) -> MemoryView:
        """Return this moment with what is expected."""
        return replace(self, forecasts=forecasts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moves:
    """Which pages go nearer and which farther, and the arm that was chosen for it.

    Demotions are done first: they make room. The last `room` of them make it for new pages. What is
    in `trap` is promoted at its next access, a fault.
    """

    promote: Rows
    demote: Rows
    room: int = 0
    trap: Rows = field(default_factory=lambda: np.zeros(0, np.int64))
    arm: int = -1
    why: str = ""


def no_moves(arm: int = -1, why: str = "") -> Moves:
    """Return that nothing is moved."""
    none = np.zeros(0, np.int64)
    return Moves(promote=none, demote=none, arm=arm, why=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnTouch:
    """What happens at an access, where a policy does not wait for the end of an epoch.

    `mode` is one of none, fault, lru, two-queue, lfu, trap. With `fault`, `scan_share` of the pages
    are unmapped in an epoch; an access to one is a hint fault, and the `needed`-th within
    `window_epochs` promotes. `watermark_share` of the near tier is kept free by demotion.
    """

    mode: str = "none"
    scan_share: float = 0.0
    near_faults: bool = False  # near pages are unmapped, too
    needed: int = 1
    window_epochs: int = 1_000_000
    watermark_share: float = 0.0
    rate_pages: int = 1_000_000_000  # promotions in an epoch, at most
    watches: bool = False  # accessed bits are read at the end of an epoch


class PagePolicy(Protocol):
    """Chooses which pages move, at the end of each epoch. Pure."""

    @property
    def name(self) -> str: ...

    @property
    def on_touch(self) -> OnTouch: ...

    def migrate(self, view: MemoryView) -> Moves:
        """Return what to move now."""
        ...


class PageEstimator(Protocol):
    """Predicts accesses to pages and what moving them earns; learns from each epoch."""

    @property
    def name(self) -> str: ...

    def learn(self, view: MemoryView) -> None:
        """Take in one epoch."""
        ...

    def predict(self, view: MemoryView) -> MemoryForecasts:
        """Return what is expected. Must work before anything was learned."""
        ...

    def took(self, view: MemoryView, moves: Moves) -> None:
        """Take note of what was moved after this moment."""
        ...
