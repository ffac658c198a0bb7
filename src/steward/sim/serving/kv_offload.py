"""Prefix blocks that leave a GPU: kept on its host or in remote memory, and fetched from there.

Copies to the host run beside the steps. What comes back is waited for before the step that needs
it: nothing is overlapped, and nothing is computed again. Memory of the host survives a swap of the
model's server only in as far as blocks of one model are numbered by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.model.serving.kv_tiers import KvPolicy, KvTiers, KvView
from steward.sim.serving.state import (
    KV_DROPPED,
    KV_FROM_HOST,
    KV_FROM_REMOTE,
    KV_REMOTE_N,
    KV_STORED,
    NOW,
    PREFIX_TOKENS,
    ServingState,
)

__all__ = ["KvOffload", "fetch", "note_uses", "store"]


@dataclass(slots=True, kw_only=True)
class KvOffload:
    """The tiers, and the policy that values blocks. One object for one run."""

    tiers: KvTiers
    policy: KvPolicy
    _next_s: float = field(default=-np.inf)

    def follow(self, state: ServingState, t_s: float) -> None:
        """Ask the policy what blocks are worth now, if it is due."""
        if t_s < self._next_s:
            return
        self._next_s = t_s + self.policy.every_s
        view = KvView(t_s=t_s, uses=state.kv_uses, last_s=state.kv_last_s)
        state.kv_value[:] = self.policy.values(view)
        state.kv_uses[:] = 0

    def counts(self, state: ServingState) -> dict[str, int]:
        """Return how many blocks were stored, fetched and dropped."""
        return {
            "stored": int(state.kv_counts[KV_STORED]),
            "from_host": int(state.kv_counts[KV_FROM_HOST]),
            "from_remote": int(state.kv_counts[KV_FROM_REMOTE]),
            "dropped": int(state.kv_counts[KV_DROPPED]),
        }


@njit
def note_uses(state: ServingState, r: int) -> None:
    """Count that a request had its prompt blocks; only where some leave the GPU."""
    if state.kv_host.shape[1] == 0:  # a live server has more blocks than these columns then
        return
    for place in range(state.prefix_start[r], state.prefix_start[r + 1]):
        block = state.prefix_ids[place]
        state.kv_uses[block] += 1
        state.kv_last_s[block] = state.clock[NOW]


@njit
def store(state: ServingState, i: int, block: int) -> None:
    """Keep a block that leaves a GPU, in place of one that is worth less, or drop it."""
    room = state.kv_host.shape[1]
    if room == 0 or state.kv_at_host[i, block] > 0:
        return
    state.kv_counts[KV_STORED] += 1
    count = state.kv_host_n[i]
    if count < room:
        state.kv_host[i, count] = block
        state.kv_at_host[i, block] = count + 1
        state.kv_host_n[i] = count + 1
        return
    place = _least(state, state.kv_host[i])
    victim = state.kv_host[i, place]
    if state.kv_value[block] < state.kv_value[victim]:
        _store_remote(state, block)
        return
    state.kv_at_host[i, victim] = 0
    state.kv_host[i, place] = block
    state.kv_at_host[i, block] = place + 1
    _store_remote(state, victim)


@njit
def _store_remote(state: ServingState, block: int) -> None:
    room = len(state.kv_remote)
    if room == 0:
        state.kv_counts[KV_DROPPED] += 1
        return
    if state.kv_at_remote[block] > 0:
        return
    place = state.kv_counts[KV_REMOTE_N]
    if place < room:
        state.kv_counts[KV_REMOTE_N] += 1
    else:
        place = _least(state, state.kv_remote)
        victim = state.kv_remote[place]
        state.kv_counts[KV_DROPPED] += 1
        if state.kv_value[block] < state.kv_value[victim]:
            return
        state.kv_at_remote[victim] = 0
    state.kv_remote[place] = block
    state.kv_at_remote[block] = place + 1


@njit
def _least(state: ServingState, blocks: NDArray[np.int64]) -> int:
    """Return the place of the block with the least value; among equal ones the longest unused."""
    best = 0
    for place in range(1, len(blocks)):
        now, least = blocks[place], blocks[best]
        worth, lowest = state.kv_value[now], state.kv_value[least]
        older = worth == lowest and state.kv_last_s[now] < state.kv_last_s[least]
        if worth < lowest or older:
            best = place
    return best


@njit
def fetch(state: ServingState, i: int, r: int, hits: int) -> int:
    """Return how many prefix blocks after the first `hits` come back from host or remote memory.

    Where that takes longer than computing a block again, it is computed again.
    """
    tokens = state.limits[PREFIX_TOKENS]
    if tokens == 0 or state.kv_host.shape[1] == 0:
        return 0
    start = state.prefix_start[r]
    count = min(state.prefix_start[r + 1] - start, (state.prompt[r] - 1) // tokens)
    at = hits
    again_s = tokens * state.coefficient[state.type[i], 2]
    while at < count:
        block = state.prefix_ids[start + at]
        if state.users[i, block] < 0:
            if state.kv_at_host[i, block] > 0 and state.kv_costs[0] < again_s:
                state.kv_load_s[i] += state.kv_costs[0]
                state.kv_counts[KV_FROM_HOST] += 1
            elif _is_remote(state, block) and state.kv_costs[1] < again_s:
                state.kv_load_s[i] += state.kv_costs[1]
                state.kv_counts[KV_FROM_REMOTE] += 1
            else:
                break
        at += 1
    return at - hits


@njit
def _is_remote(state: ServingState, block: int) -> bool:
    return bool(len(state.kv_remote) > 0 and state.kv_at_remote[block] > 0)
