"""One instance: which requests a step computes, how long it takes, and what it leaves behind."""

from __future__ import annotations

import math

import numpy as np

from steward.compiled import njit
from steward.model.serving.token_counters import OUTPUT_WEIGHT
from steward.model.serving.view import DONE, QUEUED, RUNNING, SENT
from steward.sim.serving.blocks import give_back, reserve_prompt, share_prefix, take
from steward.sim.serving.state import (
    ENDED_N,
    EVERY_STEP,
    QUEUE_N,
    STEPS,
    UNDONE,
    ServingState,
)

__all__ = [
    "catch_up",
    "commit",
    "interrupt",
    "plan",
    "preempt_last",
    "requeue",
    "send_back",
    "steps_done",
    "sweep",
]


@njit
def plan(state: ServingState, i: int, now_s: float) -> int:
    """Begin the next step, or stretch of steps, of an instance; return how many were admitted.

    Decoding sequences come first, then prompts that were begun, then new ones, within the limit
    of tokens. Steps that only decode are taken together up to the first that ends a request, or
    that lacks KV blocks.
    """
    whole = _make_way(state, i)
    budget = state.max_tokens[state.type[i]] - state.decoding[i]
    prefill, pairs = 0, 0.0
    for place in range(state.running_n[i]):
        r = state.running[i, place]
        if state.computed[r] < state.target[r]:
            chunk = min(state.target[r] - state.computed[r], budget)
            prefill, budget, pairs = _add_chunk(state, r, chunk, (prefill, budget, pairs))
    admitted = 0
    if whole:
        while budget > 0 and _admit(state, i):
            admitted += 1
            r = state.running[i, state.running_n[i] - 1]
            chunk = min(state.target[r] - state.computed[r], budget)
            prefill, budget, pairs = _add_chunk(state, r, chunk, (prefill, budget, pairs))
    state.begin_s[i] = now_s
    _time(state, i, prefill, pairs)
    if whole and prefill == 0 and state.steps[i] == 1 and not state.limits[EVERY_STEP]:
        state.steps[i] = _stretch(state, i)  # after a preemption the next step may admit again
        state.end_s[i] = _end_of(state, i, state.steps[i])
    return admitted


@njit
def _add_chunk(
    state: ServingState, r: int, chunk: int, so_far: tuple[int, int, float]
) -> tuple[int, int, float]:
    state.chunk[r] = chunk
    prefill, budget, pairs = so_far
    return prefill + chunk, budget - chunk, pairs + chunk * (state.computed[r] + 0.5 * chunk)


@njit
def _admit(state: ServingState, i: int) -> bool:
    """Move the first waiting request into the batch; return False if there is none or no room."""
    if state.waiting_n[i] == 0 or state.running_n[i] >= state.max_sequences[state.type[i]]:
        return False
    r = state.waiting[i, 0]
    if not reserve_prompt(state, i, r):
        return False
    state.waiting_n[i] -= 1
    for place in range(state.waiting_n[i]):
        state.waiting[i, place] = state.waiting[i, place + 1]
    state.running[i, state.running_n[i]] = r
    state.running_n[i] += 1
    state.held[i] += state.computed[r]
    state.status[r] = RUNNING
    return True


@njit
def _make_way(state: ServingState, i: int) -> bool:
    """Preempt the last admitted until each sequence can store a token; return False if any was."""
    whole = True
    while _blocks_after(state, i, 1) > state.free[i]:
        whole = False
        preempt_last(state, i)
    return whole


@njit
def preempt_last(state: ServingState, i: int) -> None:
    """Put the last admitted request in front of those that wait; it is computed again later."""
    state.running_n[i] -= 1
    r = state.running[i, state.running_n[i]]
    _drop(state, i, r)
    state.preemptions[r] += 1
    state.status[r] = SENT
    for place in range(state.waiting_n[i], 0, -1):
        state.waiting[i, place] = state.waiting[i, place - 1]
    state.waiting[i, 0] = r
    state.waiting_n[i] += 1


@njit
def _drop(state: ServingState, i: int, r: int) -> None:
    """Release what a running request holds; what it has computed is lost."""
    state.decoding[i] -= state.computed[r] >= state.target[r]
    state.held[i] -= state.computed[r]
    give_back(state, i, r)
    state.computed[r] = 0
    state.chunk[r] = 0


@njit
def _blocks_after(state: ServingState, i: int, steps: int) -> int:
    """Return how many more blocks the decoding sequences need for so many steps."""
    size = state.block_tokens[state.type[i]]
    need = 0
    for place in range(state.running_n[i]):
        r = state.running[i, place]
        if state.computed[r] >= state.target[r]:
            have = (state.computed[r] + size - 1) // size
            need += (state.computed[r] + steps + size - 1) // size - have
    return need


@njit
def _time(state: ServingState, i: int, prefill: int, pairs: float) -> None:
    """Set how long the next step takes, and how much longer each one after it would."""
    batch = state.decoding[i]
    if prefill + batch == 0:
        state.steps[i] = 0
        state.end_s[i] = np.inf
        return
    c = state.coefficient[state.type[i]]
    tokens = prefill + batch
    kv = _decoded_kv(state, i) if prefill > 0 else state.held[i]
    first_s = c[0] + c[2] * tokens + c[5] * batch + c[6] * kv + c[7] * pairs
    if tokens > c[3]:
        first_s += c[4] * (tokens - c[3])
    if prefill > 0:
        first_s += c[1] + state.kv_load_s[i]
        state.kv_load_s[i] = 0.0
    state.first_step_s[i] = first_s
    state.growth_s[i] = c[6] * batch
    state.steps[i] = 1
    state.end_s[i] = _end_of(state, i, 1)


@njit
def _decoded_kv(state: ServingState, i: int) -> int:
    kv = 0
    for place in range(state.running_n[i]):
        r = state.running[i, place]
        if state.computed[r] >= state.target[r]:
            kv += state.computed[r]
    return kv


@njit
def _stretch(state: ServingState, i: int) -> int:
    """Return how many decode steps pass until a request ends or blocks run out."""
    r = state.running[i, 0]
    most = state.output[r] - state.generated[r]
    for place in range(1, state.running_n[i]):
        r = state.running[i, place]
        most = min(most, state.output[r] - state.generated[r])
    size = state.block_tokens[state.type[i]]
    if state.running_n[i] * (most // size + 1) <= state.free[i]:
        return int(most)
    low, high = 1, most  # the first step was made way for
    while low < high:
        middle = (low + high + 1) // 2
        if _blocks_after(state, i, middle) <= state.free[i]:
            low = middle
        else:
            high = middle - 1
    return low


@njit
def _end_of(state: ServingState, i: int, steps: int) -> float:
    """Return when the first `steps` of a stretch are over, in closed form."""
    growth_s = 0.5 * state.growth_s[i] * steps * (steps - 1)
    return float(state.begin_s[i] + (steps * state.first_step_s[i] + growth_s))


@njit
def steps_done(state: ServingState, i: int, t_s: float) -> int:
    """Return how many steps of the stretch are over at `t_s`."""
    if state.steps[i] == 0 or _end_of(state, i, 1) > t_s:
        return 0
    first_s, growth_s = state.first_step_s[i], state.growth_s[i]
    passed_s = t_s - state.begin_s[i]
    steps = passed_s / first_s
    if growth_s > 0:  # the root of growth/2 n^2 + (first - growth/2) n = passed
        half = first_s - 0.5 * growth_s
        steps = (math.sqrt(half * half + 2 * growth_s * passed_s) - half) / growth_s
    done = min(max(int(steps), 1), int(state.steps[i]))
    while done < state.steps[i] and _end_of(state, i, done + 1) <= t_s:
        done += 1
    while done > 1 and _end_of(state, i, done) > t_s:
        done -= 1
    return done


@njit
def catch_up(state: ServingState, i: int, now_s: float) -> None:
    """Take in the steps of a stretch that are over, so that a view shows them; it goes on."""
    done = steps_done(state, i, now_s)
    if 0 < done < state.steps[i]:
        _count_time(state, i, done)
        state.begin_s[i] = _end_of(state, i, done)
        state.counts[STEPS] += done
        take(state, i, _grow(state, i, done))
        state.first_step_s[i] += done * state.growth_s[i]
        state.steps[i] -= done
        state.end_s[i] = max(now_s, _end_of(state, i, state.steps[i]))


@njit
def interrupt(state: ServingState, i: int, t_s: float) -> None:
    """Let a stretch end with the step that runs at `t_s`, so that the next one can be planned."""
    if state.steps[i] > 1:
        done = steps_done(state, i, t_s)
        if done == 0 or _end_of(state, i, done) < t_s:
            done += 1
        if done < state.steps[i]:
            state.steps[i] = done
            state.end_s[i] = _end_of(state, i, done)


@njit
def commit(state: ServingState, i: int, steps: int) -> None:
    """Take in that so many steps of the stretch are over."""
    end_s = _end_of(state, i, steps)
    _count_time(state, i, steps)
    state.counts[STEPS] += steps
    if state.decoding[i] > 0:
        take(state, i, _grow(state, i, steps))
    for place in range(state.running_n[i]):
        r = state.running[i, place]
        if state.chunk[r] > 0:
            _compute_chunk(state, i, r, end_s)
    sweep(state, i, end_s)
    state.steps[i] = 0
    state.end_s[i] = np.inf
    state.stale[i] = 1


@njit
def sweep(state: ServingState, i: int, now_s: float) -> None:
    """Remove from the batch what is finished, and what was evicted."""
    kept = 0
    for place in range(state.running_n[i]):
        r = state.running[i, place]
        if state.generated[r] == state.output[r]:
            _finish(state, i, r, now_s)
        elif state.evicted[r]:
            _drop(state, i, r)
            requeue(state, r)
        else:
            state.running[i, kept] = r
            kept += 1
    state.running_n[i] = kept


@njit
def _count_time(state: ServingState, i: int, steps: int) -> None:
    """Add up what the sequences that decode wait for their tokens in so many steps."""
    state.between_s[i] += state.decoding[i] * (_end_of(state, i, steps) - state.begin_s[i])
    state.made[i] += state.decoding[i] * steps


@njit
def _serve(state: ServingState, r: int, tokens: float) -> None:
    """Count what a request's tenant had, an output token twice."""
    if state.tenant[r] >= 0:
        state.served[state.deadline_class[r], state.tenant[r]] += tokens


@njit
def _grow(state: ServingState, i: int, steps: int) -> int:
    """Add a token per step to each decoding sequence; return how many blocks that takes."""
    size = state.block_tokens[state.type[i]]
    total = 0
    for place in range(state.running_n[i]):
        r = state.running[i, place]
        if state.computed[r] >= state.target[r]:
            have = (state.computed[r] + size - 1) // size
            state.computed[r] += steps
            state.generated[r] += steps
            _serve(state, r, OUTPUT_WEIGHT * steps)
            more = (state.computed[r] + size - 1) // size - have
            state.blocks[r] += more
            total += more
    state.held[i] += steps * state.decoding[i]
    return total


@njit
def _compute_chunk(state: ServingState, i: int, r: int, end_s: float) -> None:
    state.computed[r] += state.chunk[r]
    state.held[i] += state.chunk[r]
    _serve(state, r, state.chunk[r])
    state.chunk[r] = 0
    if state.computed[r] == state.target[r]:
        state.generated[r] += 1
        state.decoding[i] += 1
        _serve(state, r, OUTPUT_WEIGHT)
        if np.isnan(state.first_s[r]):
            state.first_s[r] = end_s
        share_prefix(state, i, r)


@njit
def _finish(state: ServingState, i: int, r: int, end_s: float) -> None:
    state.decoding[i] -= 1
    state.held[i] -= state.computed[r]
    give_back(state, i, r)
    state.status[r] = DONE
    state.instance[r] = -1
    state.finish_s[r] = end_s
    state.counts[UNDONE] -= 1
    if state.tenant[r] >= 0:
        state.present[state.deadline_class[r], state.tenant[r]] -= 1
    state.ended[state.counts[ENDED_N]] = r
    state.counts[ENDED_N] += 1


@njit
def send_back(state: ServingState, i: int) -> None:
    """Return all that an instance has to the gateway's queue."""
    for place in range(state.running_n[i]):
        r = state.running[i, place]
        _drop(state, i, r)
        requeue(state, r)
    for place in range(state.waiting_n[i]):
        requeue(state, state.waiting[i, place])
    state.running_n[i] = 0
    state.waiting_n[i] = 0


@njit
def requeue(state: ServingState, r: int) -> None:
    """Put a request back into the gateway's queue, which is sorted by arrival."""
    state.returns[r] += 1
    state.evicted[r] = 0
    state.instance[r] = -1
    state.status[r] = QUEUED
    count = state.counts[QUEUE_N]
    place = np.searchsorted(state.queue[:count], r)
    for each in range(count, place, -1):
        state.queue[each] = state.queue[each - 1]
    state.queue[place] = r
    state.counts[QUEUE_N] = count + 1
