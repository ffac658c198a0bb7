"""The compiled simulator: accesses one by one, moves, and what fault-driven policies do at once.

A program has one access after the other (`parallel` is what its misses overlap). The load of others
leaves it the rest of the link. Copies are queued behind one another; an access that meets a copy
waits for half a page on average, since the link takes turns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.sim.memory.state import (
    AT,
    BULK_FREE,
    DEMOTED,
    EPOCH,
    EPOCH_FAR,
    EPOCH_PROMOTED,
    FAILED,
    FAR,
    FAULT_S,
    FAULTS,
    FIRST_MOST,
    GHOSTS,
    HAND,
    IN_FIRST,
    MODE,
    MOVE_S,
    NEAR,
    NEAR_FAULTS,
    NEEDED,
    NOW,
    PAGE,
    PING_PONG,
    PING_PONG_EPOCHS,
    PROMOTED,
    RATE,
    RATE_LIMIT,
    RATE_USED,
    SCAN,
    SCAN_AT,
    SERIAL,
    SLOT_S,
    STALL,
    THINK,
    TOUCHED,
    TRAPS,
    WATCH_S,
    WATCHES,
    WATERMARK,
    WINDOW,
    PageState,
)

__all__ = ["end_epoch", "move", "run", "trap"]

Rows = NDArray[np.int64]
FAULT_MODE, LRU_MODE, TWO_QUEUE_MODE, LFU_MODE, TRAP_MODE = 1, 2, 3, 4, 5
_LOOKED_AT = 16  # near pages among which the least frequent one is demoted


@njit
def run(state: PageState, until: int) -> None:
    """Go on to access number `until`."""
    mode = state.limits[MODE]
    if mode == 0 or (mode == TRAP_MODE and state.counts[TRAPS] == 0):
        _run_plain(state, until)
        return
    clock, counts = state.clock, state.counts
    for at in range(counts[AT], until):
        page = state.page[at]
        clock[THINK] += state.think_s[at]
        clock[NOW] += state.think_s[at]
        tier = state.tier[page]
        if tier < 0:
            tier = _allocate(state, page)
        _count(state, page)
        if state.unmapped[page]:
            _fault(state, page)
            tier = state.tier[page]
        if state.ready_s[page] > clock[NOW]:
            _stall(state, state.ready_s[page] - clock[NOW])
        if state.linked[tier]:
            _far_access(state, tier)
        else:
            counts[NEAR] += tier == 0
            _stall(state, state.hit_s[tier])
        if mode != TRAP_MODE:
            _after(state, page, tier)
    counts[AT] = until


@njit
def _run_plain(state: PageState, until: int) -> None:
    """Do the same where nothing happens at accesses, with the sums of an epoch in registers."""
    clock, counts = state.clock, state.counts
    now, bulk_free = clock[NOW], clock[BULK_FREE]
    think = stall = 0.0
    near = far = 0
    slot_s, slots = state.floats[SLOT_S], len(state.load)
    for at in range(counts[AT], until):
        page = state.page[at]
        think += state.think_s[at]
        now += state.think_s[at]
        tier = state.tier[page]
        if tier < 0:
            tier = _allocate(state, page)
        if state.hits[page] == 0:
            _count(state, page)
        else:
            state.hits[page] += 1
        wait = max(0.0, state.ready_s[page] - now)
        now += wait
        hit = state.hit_s[tier]
        if state.linked[tier]:
            slot = int(now / slot_s) % slots
            hit += state.wire_s[slot]
            far += 1
            if bulk_free > now:
                hit += state.meet_s[slot]
        elif tier == 0:
            near += 1
        now += hit
        stall += wait + hit
    clock[NOW] = now
    clock[THINK] += think
    clock[STALL] += stall
    counts[NEAR] += near
    counts[FAR] += far
    counts[EPOCH_FAR] += far
    counts[AT] = until


@njit
def _count(state: PageState, page: int) -> None:
    if state.hits[page] == 0:
        state.touched[state.counts[TOUCHED]] = page
        state.counts[TOUCHED] += 1
        state.last_epoch[page] = state.counts[EPOCH]
    state.hits[page] += 1


@njit
def _stall(state: PageState, seconds: float) -> None:
    state.clock[NOW] += seconds
    state.clock[STALL] += seconds


@njit
def _load(state: PageState, t_s: float) -> float:
    return float(state.load[int(t_s / state.floats[SLOT_S]) % len(state.load)])


@njit
def _far_access(state: PageState, tier: int) -> None:
    clock = state.clock
    slot = int(clock[NOW] / state.floats[SLOT_S]) % len(state.load)
    stall_s = state.hit_s[tier] + state.wire_s[slot]
    if clock[BULK_FREE] > clock[NOW]:
        stall_s += state.meet_s[slot]
    state.counts[EPOCH_FAR] += 1
    state.counts[FAR] += 1
    _stall(state, stall_s)


@njit
def _allocate(state: PageState, page: int) -> int:
    """Put a new page into the nearest tier with room."""
    for tier in range(len(state.room)):
        if state.used[tier] < state.room[tier]:
            state.used[tier] += 1
            state.tier[page] = tier
            if tier == 0 and 0 < state.limits[MODE] < TRAP_MODE:
                _append(state, page, state.limits[MODE] == TWO_QUEUE_MODE)
            return tier
    return -1


@njit
def _transfer(state: PageState, source: int, target: int) -> float:
    """Return when the copy of one page that begins now has arrived."""
    clock, floats = state.clock, state.floats
    if not (state.linked[source] or state.linked[target]):
        return float(clock[NOW] + floats[PAGE] / floats[RATE])
    begin_s = max(clock[NOW], clock[BULK_FREE])
    copy_s = floats[PAGE] / (floats[RATE] * (1.0 - _load(state, begin_s)))
    clock[BULK_FREE] = begin_s + copy_s
    return float(clock[BULK_FREE])


@njit
def _promote(state: PageState, page: int) -> None:
    source = state.tier[page]
    state.used[source] -= 1
    state.used[0] += 1
    state.tier[page] = 0
    state.ready_s[page] = _transfer(state, source, 0)
    state.counts[PROMOTED] += 1
    state.counts[EPOCH_PROMOTED] += 1
    if state.counts[EPOCH] - state.demoted_epoch[page] <= PING_PONG_EPOCHS:
        state.counts[PING_PONG] += 1
    _stall(state, state.floats[MOVE_S])


@njit
def _demote(state: PageState, page: int) -> bool:
    """Move a near page to the next tier with room; return False if there is none."""
    for tier in range(1, len(state.room)):
        if state.used[tier] < state.room[tier]:
            state.used[0] -= 1
            state.used[tier] += 1
            state.tier[page] = tier
            state.ready_s[page] = _transfer(state, 0, tier)
            state.counts[DEMOTED] += 1
            state.demoted_epoch[page] = state.counts[EPOCH]
            _stall(state, state.floats[MOVE_S])
            return True
    state.counts[FAILED] += 1
    return False


@njit
def move(state: PageState, promote: Rows, demote: Rows) -> bool:
    """Carry out the moves of an epoch, demotions first; return False at one that cannot be done."""
    for page in demote:
        if state.tier[page] != 0 or not _demote(state, page):
            return False
    for page in promote:
        if state.tier[page] <= 0 or state.used[0] >= state.room[0]:
            return False
        _promote(state, page)
    return True


@njit
def trap(state: PageState, rows: Rows) -> None:
    """Let the next access to these far pages, and to no others, promote them."""
    if state.counts[TRAPS] > 0:
        state.unmapped[:] = 0
    for page in rows:
        state.unmapped[page] = 1
    state.counts[TRAPS] = len(rows)


@njit
def end_epoch(state: PageState) -> None:
    """Begin the next epoch: counts from zero, pages unmapped anew, near memory freed."""
    counts, limits = state.counts, state.limits
    if limits[WATCHES]:
        _stall(state, counts[TOUCHED] * state.floats[WATCH_S])
    for place in range(counts[TOUCHED]):
        state.hits[state.touched[place]] = 0
    counts[TOUCHED] = 0
    counts[EPOCH] += 1
    counts[RATE_USED] = 0
    counts[EPOCH_FAR] = 0
    counts[EPOCH_PROMOTED] = 0
    counts[PING_PONG] = 0
    if limits[MODE] == FAULT_MODE:
        _unmap(state)
        _reclaim(state)


@njit
def _unmap(state: PageState) -> None:
    """Unmap the next share of the pages, in the order of their rows."""
    pages = len(state.tier)
    for _ in range(min(state.limits[SCAN], pages)):
        page = state.counts[SCAN_AT]
        state.counts[SCAN_AT] = (page + 1) % pages
        if state.tier[page] > 0 or (state.tier[page] == 0 and state.limits[NEAR_FAULTS]):
            state.unmapped[page] = 1


@njit
def _reclaim(state: PageState) -> None:
    """Demote the least recently used near pages until the watermark is free."""
    while state.room[0] - state.used[0] < state.limits[WATERMARK] and state.used[0] > 0:
        page = state.newer[len(state.tier)]
        if not _demote(state, page):
            return
        _unlink(state, page)


@njit
def _fault(state: PageState, page: int) -> None:
    """Take a hint fault; promote where it is the one that is needed, and there is room."""
    counts, limits = state.counts, state.limits
    state.unmapped[page] = 0
    counts[FAULTS] += 1
    _stall(state, state.floats[FAULT_S])
    if state.tier[page] <= 0:
        return
    if counts[EPOCH] - state.fault_epoch[page] > limits[WINDOW]:
        state.faults[page] = 0
    state.faults[page] += 1
    state.fault_epoch[page] = counts[EPOCH]
    if state.faults[page] < limits[NEEDED] or counts[RATE_USED] >= limits[RATE_LIMIT]:
        return
    if state.used[0] >= state.room[0]:
        counts[FAILED] += 1
        return
    counts[RATE_USED] += 1
    state.faults[page] = 0
    _promote(state, page)
    if limits[MODE] == FAULT_MODE:
        _append(state, page, 0)


@njit
def _after(state: PageState, page: int, tier: int) -> None:
    """Keep the lists of near pages, and replace where a far page was accessed."""
    mode = state.limits[MODE]
    state.frequency[page] += 1
    if tier == 0:
        if state.queue[page] == 0:  # the first queue of two-queue is in the order of arrival
            _unlink(state, page)
            _append(state, page, 0)
        return
    if mode == FAULT_MODE:
        return  # far pages are promoted at faults
    if state.used[0] >= state.room[0]:
        victim = _victim(state, page)
        if victim < 0 or not _demote_for(state, victim):
            return
    first = mode == TWO_QUEUE_MODE and not _is_ghost(state, page)
    _promote(state, page)
    _append(state, page, first)


@njit
def _victim(state: PageState, page: int) -> int:
    """Return the near page that makes way for a far one, -1 where none should."""
    mode = state.limits[MODE]
    if mode == LFU_MODE:
        victim = _least_frequent(state)
        if victim >= 0 and state.frequency[victim] >= state.frequency[page]:
            return -1
        return victim
    if mode == TWO_QUEUE_MODE:
        return _two_queue_victim(state)
    oldest = state.newer[len(state.tier)]
    return int(oldest) if oldest < len(state.tier) else -1


@njit
def _demote_for(state: PageState, victim: int) -> bool:
    """Demote a near page to the tier of the one that takes its place: there is room, or will be."""
    if not _demote(state, victim):
        return False
    if state.queue[victim] == 1:
        state.ghost[victim] = state.counts[SERIAL]
        state.counts[SERIAL] += 1
    _unlink(state, victim)
    return True


@njit
def _is_ghost(state: PageState, page: int) -> bool:
    ghost = state.ghost[page]
    return bool(ghost >= 0 and state.counts[SERIAL] - ghost <= state.limits[GHOSTS])


@njit
def _two_queue_victim(state: PageState) -> int:
    """Return the oldest of the first queue while that is too long, else of the main one."""
    pages = len(state.tier)
    first, main = state.newer[pages + 1], state.newer[pages]
    if first < pages and (state.counts[IN_FIRST] > state.limits[FIRST_MOST] or main >= pages):
        return int(first)
    return int(main) if main < pages else -1


@njit
def _least_frequent(state: PageState) -> int:
    """Return the least frequently used of a few near pages, in turn; older uses count half."""
    pages = len(state.tier)
    hand, seen, best = state.counts[HAND], 0, -1
    for _ in range(pages):
        hand = (hand + 1) % pages
        if hand == 0:
            for page in range(pages):
                state.frequency[page] >>= 1
        if state.tier[hand] == 0:
            if best < 0 or state.frequency[hand] < state.frequency[best]:
                best = hand
            seen += 1
            if seen == _LOOKED_AT:
                break
    state.counts[HAND] = hand
    return int(best)


@njit
def _append(state: PageState, page: int, first: int) -> None:
    end = len(state.tier) + (1 if first else 0)
    last = state.older[end]
    state.older[page] = last
    state.newer[page] = end
    state.newer[last] = page
    state.older[end] = page
    state.queue[page] = 1 if first else 0
    state.counts[IN_FIRST] += 1 if first else 0


@njit
def _unlink(state: PageState, page: int) -> None:
    if state.queue[page] < 0:
        return
    before, after = state.older[page], state.newer[page]
    state.newer[before] = after
    state.older[after] = before
    state.counts[IN_FIRST] -= state.queue[page] == 1
    state.queue[page] = -1
