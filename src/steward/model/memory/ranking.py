"""Which moves would save how much stall: the rule behind policies and what learns about them.

A page is worth moving nearer when the accesses that are expected while it is near, times what each
saves, are more than what its move costs now, and that of the page it replaces. Making room for
pages that are going to be touched for the first time is worth it in the same way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.model.memory.view import MemoryForecasts, MemoryView, Moves

__all__ = [
    "ARMS",
    "Arm",
    "Ranked",
    "chosen",
    "move_cost_s",
    "moves_of",
    "net_s",
    "rank",
    "saved_now_s",
    "trapped",
]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
MOST_SHARE = 0.125  # of the nearest tier that may be replaced after one epoch
LEAST_MOVES = 8
MOST_LOAD = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A share of the moves that are possible at once, and how sure a gain has to be."""

    budget: float
    threshold: float

    @property
    def name(self) -> str:
        """Return it as text: `0.25 x2` is a quarter of the budget where gain is twice the cost."""
        return f"{self.budget:g} x{self.threshold:g}" if self.budget else "none"


ARMS: tuple[Arm, ...] = (
    Arm(budget=0.0, threshold=1.0),
    *(
        Arm(budget=budget, threshold=threshold)
        for budget in (0.125, 0.25, 0.5, 1.0)
        for threshold in (1.0, 2.0, 4.0)
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranked:
    """Moves by what they gain: demotions that make room, and promotions, each best first.

    Promotions from `free` on need the page in `replaced`, in the same order.
    """

    room: Rows
    room_gain_s: Floats
    room_cost_s: float  # of each
    promote: Rows
    replaced: Rows
    free: int
    gain_s: Floats
    cost_s: Floats
    trap: Rows
    trap_gain_s: Floats
    trap_cost_s: float


def saved_now_s(view: MemoryView) -> float:
    """Return how much less an access to near memory stalls than one to far memory, just now."""
    system = view.system
    far_s = view.link.far_access_s
    if far_s <= 0.0:
        far_s = system.access_s(len(system.tiers) - 1, min(view.link.load_share, MOST_LOAD))
    return max(0.0, far_s - system.access_s(0))


def move_cost_s(view: MemoryView) -> float:
    """Return how much stall moving one page costs: its own, and that of accesses meeting it."""
    copy_s = view.system.copy_s(min(view.link.load_share, MOST_LOAD))
    return view.system.costs.move_s + copy_s * (0.25 + view.link.far_share)


def rank(view: MemoryView, expects: MemoryForecasts) -> Ranked:
    """Return the moves by what they gain, as many as may be made after one epoch."""
    near_pages = view.system.tiers[0].pages
    value, cost_s = expects.accesses, move_cost_s(view)
    far, near = _movable(view)
    far = far[value[far] > 0.0]
    most = _most(near_pages)
    free = max(0, view.free_near)
    wanted = math.ceil(expects.new_pages + expects.trap_pages)
    far = _first(far, -value[far], most)
    needed = max(0, wanted - free)
    near = _first(near, value[near], needed + len(far))
    room, near = near[:needed], near[needed:]
    spare = min(max(0, free - wanted), len(far))
    replaced = near[: len(far) - spare]
    far = far[: spare + len(replaced)]
    lost = np.zeros(len(far))
    lost[spare:] = value[replaced]
    costs = np.full(len(far), cost_s)
    costs[spare:] *= 2.0
    trap, trap_gain_s = _traps(view, expects, float(value[near].mean()) if len(near) else 0.0)
    return Ranked(
        trap=trap,
        trap_gain_s=trap_gain_s,
        trap_cost_s=2.0 * cost_s + view.system.costs.fault_s,
        room=room,
        room_gain_s=expects.saved_s * (expects.new_accesses - value[room]),
        room_cost_s=cost_s,
        promote=far,
        replaced=replaced,
        free=spare,
        gain_s=expects.saved_s * (value[far] - lost),
        cost_s=costs,
    )


def _traps(view: MemoryView, expects: MemoryForecasts, lost: float) -> tuple[Rows, Floats]:
    """Return far pages that are worth promoting at their next access, and what each then gains."""
    if expects.after_touch is None:
        return np.zeros(0, np.int64), np.zeros(0)
    far, _ = _movable(view)
    gain_s = expects.saved_s * (expects.after_touch[far] - lost)
    return far, gain_s


def trapped(ranked: Ranked, arm: Arm) -> Rows:
    """Return the pages that an arm promotes at their next access."""
    if not arm.budget:
        return ranked.trap[:0]
    return ranked.trap[ranked.trap_gain_s > arm.threshold * ranked.trap_cost_s]


def moves_of(ranked: Ranked, arm: Arm, near_pages: int) -> tuple[int, int]:
    """Return how much room an arm makes, and how many of the ranked promotions it does."""
    room = _prefix(ranked.room_gain_s, arm.threshold * ranked.room_cost_s)
    promotions = _prefix(ranked.gain_s, arm.threshold * ranked.cost_s)
    room = min(room, math.ceil(arm.budget * len(ranked.room)))
    return room, min(promotions, math.ceil(arm.budget * _most(near_pages)))


def net_s(ranked: Ranked, room: int, promotions: int) -> float:
    """Return what so many of the moves gain, less what they cost."""
    made = float(ranked.room_gain_s[:room].sum()) - room * ranked.room_cost_s
    moved = float((ranked.gain_s[:promotions] - ranked.cost_s[:promotions]).sum())
    return made + moved


def chosen(ranked: Ranked, room: int, promotions: int) -> Moves:
    """Return so many of the ranked moves as what is to be done."""
    replaced = ranked.replaced[: max(0, promotions - ranked.free)]
    return Moves(
        promote=ranked.promote[:promotions],
        demote=np.concatenate((replaced, ranked.room[:room])),
        room=room,
    )


def _movable(view: MemoryView) -> tuple[Rows, Rows]:
    """Return far and near pages, but for those that are pinned."""
    far, near = np.flatnonzero(view.tier > 0), np.flatnonzero(view.tier == 0)
    if view.pinned:
        pinned = np.array(sorted(view.pinned), np.int64)
        far, near = np.setdiff1d(far, pinned), np.setdiff1d(near, pinned)
    return far, near


def _most(near_pages: int) -> int:
    return min(near_pages, max(LEAST_MOVES, int(MOST_SHARE * near_pages)))


def _prefix(gain_s: Floats, least_s: Floats | float) -> int:
    """Return how many of the first moves gain enough, and anything at all."""
    enough = (gain_s >= least_s) & (gain_s > 0.0)
    return len(enough) if enough.all() else int(enough.argmin())


def _first(rows: Rows, keys: Floats, count: int) -> Rows:
    """Return the rows with the least keys in their order, ties by row."""
    if count <= 0:
        return rows[:0]
    if count < len(rows):
        some = np.sort(np.argpartition(keys, count - 1)[:count])
        rows, keys = rows[some], keys[some]
    found: Rows = rows[np.argsort(keys, kind="stable")]
    return found
