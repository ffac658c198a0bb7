"""KV blocks of one instance: taking, giving back, and the prefix cache among them.

Blocks of a prompt that requests share are counted once, while somebody uses them. Without users
they stay cached, count as free, and the least recently used go first when blocks are needed.
"""

from __future__ import annotations

from steward.compiled import njit
from steward.sim.serving.kv_offload import fetch, note_uses, store
from steward.sim.serving.state import PREFIX_TOKENS, ServingState

__all__ = ["cached_tokens", "clear_cache", "give_back", "reserve_prompt", "share_prefix", "take"]


@njit
def prefix_unit(state: ServingState, i: int) -> int:
    """Return how many KV blocks of instance `i` one prefix block covers."""
    return int(state.limits[PREFIX_TOKENS] // state.block_tokens[state.type[i]])


@njit
def take(state: ServingState, i: int, count: int) -> None:
    """Take free blocks; cached ones without users make way."""
    state.free[i] -= count
    if state.idle[i] > 0:
        ends = state.users.shape[1] - 1
        unit = prefix_unit(state, i)
        while state.idle[i] > 0 and state.free[i] < state.idle[i] * unit:
            oldest = state.newer[i, ends]
            _unlink(state, i, oldest)
            state.users[i, oldest] = -1
            store(state, i, oldest)


@njit
def give_back(state: ServingState, i: int, r: int) -> None:
    """Release all blocks of request `r`; its prefix stays cached, its end the first to go."""
    state.free[i] += state.blocks[r]
    state.blocks[r] = 0
    if state.pinned[r] > 0:
        unit = prefix_unit(state, i)
        start = state.prefix_start[r]
        for place in range(state.pinned[r] - 1, -1, -1):
            block = state.prefix_ids[start + place]
            state.users[i, block] -= 1
            if state.users[i, block] == 0:
                state.free[i] += unit
                _append(state, i, block)
        state.pinned[r] = 0


@njit
def reserve_prompt(state: ServingState, i: int, r: int) -> bool:
    """Reserve blocks for all that request `r` has to compute; return False if they are not free.

    What the prefix cache holds is not computed again, but for the last token, which makes the
    next one.
    """
    kind = state.type[i]
    size = state.block_tokens[kind]
    target = state.prompt[r] + state.generated[r]
    hits, idle = _cached_prefix(state, i, r)
    unit = prefix_unit(state, i) if hits > 0 else 0
    own = (target + size - 1) // size - hits * unit
    kept = state.watermark[kind] if state.running_n[i] > 0 else 0
    if own + idle * unit > state.free[i] - kept:
        return False
    start = state.prefix_start[r]
    for place in range(hits):
        block = state.prefix_ids[start + place]
        if state.users[i, block] == 0:
            _unlink(state, i, block)
            state.free[i] -= unit
        state.users[i, block] += 1
    state.pinned[r] = hits
    back = fetch(state, i, r, hits)
    take(state, i, own)
    state.blocks[r] = own
    state.target[r] = target
    state.computed[r] = (hits + back) * state.limits[PREFIX_TOKENS]
    state.reused[r] += state.computed[r]
    return True


@njit
def share_prefix(state: ServingState, i: int, r: int) -> None:
    """Put the whole prefix blocks of a computed prompt into the cache; `r` uses them on."""
    tokens = state.limits[PREFIX_TOKENS]
    if tokens == 0:
        return
    start = state.prefix_start[r]
    note_uses(state, r)
    whole = min(state.prefix_start[r + 1] - start, state.prompt[r] // tokens)
    unit = prefix_unit(state, i)
    for place in range(state.pinned[r], whole):
        block = state.prefix_ids[start + place]
        if state.users[i, block] < 0:
            state.users[i, block] = 1
        else:  # another request computed it meanwhile: one copy is enough
            if state.users[i, block] == 0:
                _unlink(state, i, block)
                state.free[i] -= unit
            state.users[i, block] += 1
            state.free[i] += unit
        state.blocks[r] -= unit
    state.pinned[r] = max(whole, state.pinned[r])


@njit
def clear_cache(state: ServingState, i: int) -> None:
    """Forget all prefix blocks of an instance, and count all its blocks as free."""
    ends = state.users.shape[1] - 1
    if ends > 0:
        state.users[i, :] = -1
        state.older[i, ends] = ends
        state.newer[i, ends] = ends
    state.idle[i] = 0
    state.free[i] = state.type_blocks[state.type[i]]


@njit
def cached_tokens(state: ServingState, i: int, r: int) -> int:
    """Return how many leading tokens of a prompt instance `i` has cached."""
    return int(_cached_prefix(state, i, r)[0] * state.limits[PREFIX_TOKENS])


@njit
def _cached_prefix(state: ServingState, i: int, r: int) -> tuple[int, int]:
    """Return how many leading prefix blocks are cached, and how many of them are without users."""
    tokens = state.limits[PREFIX_TOKENS]
    hits = idle = 0
    if tokens > 0:
        start = state.prefix_start[r]
        count = min(state.prefix_start[r + 1] - start, (state.prompt[r] - 1) // tokens)
        while hits < count and state.users[i, state.prefix_ids[start + hits]] >= 0:
            idle += state.users[i, state.prefix_ids[start + hits]] == 0
            hits += 1
    return hits, idle


@njit
def _append(state: ServingState, i: int, block: int) -> None:
    ends = state.users.shape[1] - 1
    last = state.older[i, ends]
    state.older[i, block] = last
    state.newer[i, block] = ends
    state.newer[i, last] = block
    state.older[i, ends] = block
    state.idle[i] += 1


@njit
def _unlink(state: ServingState, i: int, block: int) -> None:
    before, after = state.older[i, block], state.newer[i, block]
    state.newer[i, before] = after
    state.older[i, after] = before
    state.idle[i] -= 1
