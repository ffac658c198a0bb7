"""The compiled loop over all instances: what happens next, until somebody has to decide.

Events are ordered by (time, rank, sequence): steps and changes of instances by their row, then
failures in the order of the table, then arrivals in the order of the trace, then ticks. All that
happens at one time is taken in before anybody decides, and before the next steps are planned.
"""

from __future__ import annotations

import numpy as np

from steward.compiled import njit
from steward.model.serving.view import (
    ANY_CLASS,
    BATCH_ONLY,
    DRAINING,
    LEAVING,
    OFF,
    QUEUED,
    REFUSED,
    SENT,
    SERVING,
    STARTING,
    SWAPPING,
)
from steward.sim.serving.blocks import clear_cache
from steward.sim.serving.state import (
    DECIDE,
    NEXT_ARRIVAL,
    NEXT_FAILURE,
    NOW,
    QUEUE_N,
    ROUTES,
    TICK,
    UNDONE,
    WITHOUT_ROOM,
    ServingState,
)
from steward.sim.serving.steps import (
    catch_up,
    commit,
    interrupt,
    plan,
    requeue,
    send_back,
    steps_done,
    sweep,
)

__all__ = [
    "ENDED",
    "TICKED",
    "WANTED",
    "WRONG_ROUTE",
    "advance",
    "drain",
    "evict",
    "set_limit",
    "set_role",
    "start_instance",
    "swap",
]

ENDED, WANTED, TICKED, WRONG_ROUTE = range(4)  # why `advance` returned


@njit
def advance(state: ServingState) -> int:
    """Carry out the routes that were set, then go on until somebody has to decide.

    Returns ENDED when nothing is left to happen, WANTED when requests wait and there is room,
    TICKED when a tick is due, WRONG_ROUTE when a route cannot be taken (`counts[ROUTES]` is it).
    """
    if not _route(state):
        return WRONG_ROUTE
    while True:
        if _may_send(state):
            return WANTED
        _plan_stale(state)
        if _may_send(state):  # what was admitted made room
            return WANTED
        t_s = _next_s(state)
        if t_s == np.inf:
            return ENDED
        state.clock[NOW] = t_s
        _instances_at(state, t_s)
        _failures_at(state, t_s)
        _arrivals_at(state, t_s)
        if state.clock[TICK] == t_s:
            state.clock[TICK] = np.inf
            state.counts[DECIDE] = 1  # what the scaler changes may make room
            _look(state)
            return TICKED


@njit
def _next_s(state: ServingState) -> float:
    t_s = state.clock[TICK]
    for i in range(len(state.end_s)):
        t_s = min(t_s, state.end_s[i])
    arrival = state.counts[NEXT_ARRIVAL]
    if arrival < len(state.arrival_s):
        t_s = min(t_s, state.arrival_s[arrival])
    failure = state.counts[NEXT_FAILURE]
    if failure < len(state.failure_s) and state.counts[UNDONE] > 0:
        t_s = min(t_s, state.failure_s[failure])
    return float(t_s)


@njit
def _plan_stale(state: ServingState) -> None:
    for i in range(len(state.stale)):
        if state.stale[i]:
            state.stale[i] = 0
            if plan(state, i, state.clock[NOW]) > 0:
                state.counts[DECIDE] = 1


@njit
def _may_send(state: ServingState) -> bool:
    """Return whether something changed, requests wait, and some instance has room.

    A dispatcher that evicts is called without room, too.
    """
    changed = state.counts[DECIDE] > 0
    state.counts[DECIDE] = 0
    if not changed or state.counts[QUEUE_N] == 0:
        return False
    return _look(state) or state.limits[WITHOUT_ROOM] > 0


@njit
def _look(state: ServingState) -> bool:
    """Bring the columns of the view up to date; return whether any instance has room."""
    any_room = False
    for i in range(len(state.room)):
        state.room[i] = _room(state, i)
        any_room |= state.room[i] > 0
        catch_up(state, i, state.clock[NOW])
    return any_room


@njit
def _room(state: ServingState, i: int) -> int:
    if state.state[i] != SERVING:
        return 0
    free = state.limit[i] - state.running_n[i] - state.waiting_n[i]
    return int(max(0, min(free, state.max_waiting[state.type[i]] - state.waiting_n[i])))


@njit
def _instances_at(state: ServingState, t_s: float) -> None:
    for i in range(len(state.end_s)):
        if state.end_s[i] != t_s:
            continue
        if state.steps[i] > 0:
            before = state.running_n[i]
            commit(state, i, state.steps[i])
            if state.running_n[i] < before:
                state.counts[DECIDE] = 1
        else:
            _ready(state, i)
            state.counts[DECIDE] = 1
        if state.state[i] >= SWAPPING:
            _settle(state, i)


@njit
def _ready(state: ServingState, i: int) -> None:
    """Let an instance serve that has started, or has loaded its new model."""
    if state.state[i] == SWAPPING:
        state.type[i] = state.next_type[i]
        state.next_type[i] = -1
        _become(state, i)
    elif state.state[i] == STARTING:
        state.state[i] = SERVING
    state.end_s[i] = np.inf


@njit
def _become(state: ServingState, i: int) -> None:
    """Set what follows from an instance's type."""
    kind = state.type[i]
    state.instance_model[i] = state.type_model[kind]
    state.limit[i] = state.max_sequences[kind]
    state.state[i] = SERVING
    clear_cache(state, i)


@njit
def _settle(state: ServingState, i: int) -> None:
    """Begin to swap, or go away, once nothing is left to do."""
    if state.running_n[i] + state.waiting_n[i] > 0:
        return
    if state.state[i] == DRAINING:
        state.state[i] = OFF
        used_s = state.clock[NOW] - state.on_since_s[i]
        state.gpu_seconds[i] += used_s * state.type_gpus[state.type[i]]
        state.end_s[i] = np.inf
        state.stale[i] = 0
    elif state.state[i] == SWAPPING and state.end_s[i] == np.inf:
        state.end_s[i] = state.clock[NOW] + state.swap_s[state.type[i], state.next_type[i]]
        state.stale[i] = 0


@njit
def _failures_at(state: ServingState, t_s: float) -> None:
    while (
        state.counts[NEXT_FAILURE] < len(state.failure_s)
        and state.failure_s[state.counts[NEXT_FAILURE]] <= t_s
    ):
        place = state.counts[NEXT_FAILURE]
        state.counts[NEXT_FAILURE] += 1
        i = state.failure_instance[place]
        if i < len(state.state) and state.state[i] != OFF:
            _fail(state, i, state.down_s[place])


@njit
def _fail(state: ServingState, i: int, down_s: float) -> None:
    """Lose what an instance holds; it starts again after `down_s`, or goes away if it drains."""
    done = steps_done(state, i, state.clock[NOW])
    if done > 0:
        commit(state, i, done)
    send_back(state, i)
    clear_cache(state, i)
    state.steps[i] = 0
    state.stale[i] = 0
    state.counts[DECIDE] = 1
    if state.state[i] == DRAINING:
        _settle(state, i)
        return
    if state.next_type[i] >= 0:
        state.type[i] = state.next_type[i]
        state.next_type[i] = -1
        _become(state, i)
    state.state[i] = STARTING
    state.end_s[i] = state.clock[NOW] + down_s + state.start_s[state.type[i]]


@njit
def _arrivals_at(state: ServingState, t_s: float) -> None:
    """Queue what arrives; refuse what would never fit into any type's KV cache."""
    row = state.counts[NEXT_ARRIVAL]
    while row < len(state.arrival_s) and state.arrival_s[row] <= t_s:
        if _fits(state, row):
            state.status[row] = QUEUED
            state.queue[state.counts[QUEUE_N]] = row
            state.counts[QUEUE_N] += 1
            state.counts[DECIDE] = 1
            _count_in(state, row)
        else:
            state.status[row] = REFUSED
            state.counts[UNDONE] -= 1
        row += 1
    state.counts[NEXT_ARRIVAL] = row


@njit
def _count_in(state: ServingState, r: int) -> None:
    """Lift the counter of a tenant that comes back to the least of those that are there.

    As `model/serving/token_counters.py` does.
    """
    k, tenant = state.deadline_class[r], state.tenant[r]
    if tenant < 0:
        return
    if state.present[k, tenant] == 0:
        least = np.inf
        for other in range(state.present.shape[1]):
            if state.present[k, other] > 0:
                least = min(least, state.served[k, other])
        if least < np.inf:
            state.served[k, tenant] = max(state.served[k, tenant], least)
    state.present[k, tenant] += 1


@njit
def _fits(state: ServingState, r: int) -> bool:
    for kind in range(len(state.type_model)):
        if state.type_model[kind] == state.model[r] and _fits_type(state, r, kind):
            return True
    return False


@njit
def _fits_type(state: ServingState, r: int, kind: int) -> bool:
    tokens = state.type_blocks[kind] * state.block_tokens[kind]
    return bool(state.prompt[r] + state.output[r] <= tokens)


@njit
def _route(state: ServingState) -> bool:
    """Send requests where the dispatcher said; return False at the first that cannot go."""
    routes = state.counts[ROUTES]
    for place in range(routes):
        r, i = state.route_request[place], state.route_instance[place]
        if not _can_go(state, r, i):
            state.counts[ROUTES] = place
            return False
        _leave_queue(state, r)
        state.waiting[i, state.waiting_n[i]] = r
        state.waiting_n[i] += 1
        state.status[r] = SENT
        state.instance[r] = i
        state.last_instance[r] = i
        if np.isnan(state.sent_s[r]):
            state.sent_s[r] = state.clock[NOW]
        _wake(state, i)
    state.counts[ROUTES] = 0
    return True


@njit
def _can_go(state: ServingState, r: int, i: int) -> bool:
    if r < 0 or r >= len(state.status) or i < 0 or i >= len(state.state):
        return False
    if state.status[r] != QUEUED or state.state[i] != SERVING:
        return False
    if not _fits_type(state, r, state.type[i]):
        return False
    in_flight = state.running_n[i] + state.waiting_n[i]
    return bool(state.model[r] == state.instance_model[i] and in_flight < state.limit[i])


@njit
def _leave_queue(state: ServingState, r: int) -> None:
    count = state.counts[QUEUE_N]
    place = np.searchsorted(state.queue[:count], r)
    for each in range(place, count - 1):
        state.queue[each] = state.queue[each + 1]
    state.counts[QUEUE_N] = count - 1


@njit
def _wake(state: ServingState, i: int) -> None:
    """Let an instance plan again: at once if it is idle, else when its present step is over."""
    if state.steps[i] > 0:
        interrupt(state, i, state.clock[NOW])
    else:
        state.stale[i] = 1


@njit
def evict(state: ServingState, r: int) -> bool:
    """Take a request from its instance: at once if it waits there, else when the step ends."""
    if r < 0 or r >= len(state.status) or state.instance[r] < 0:
        return False
    i = state.instance[r]
    if state.status[r] == SENT:
        kept = 0
        for place in range(state.waiting_n[i]):
            if state.waiting[i, place] != r:
                state.waiting[i, kept] = state.waiting[i, place]
                kept += 1
        state.waiting_n[i] = kept
        requeue(state, r)
        return True
    if state.status[r] == LEAVING:
        return True
    state.evicted[r] = 1
    state.status[r] = LEAVING
    if state.steps[i] > 0:
        interrupt(state, i, state.clock[NOW])
    else:  # between two steps
        sweep(state, i, state.clock[NOW])
    return True


@njit
def swap(state: ServingState, i: int, kind: int) -> bool:
    """Load another type's model once the instance has ended what it has."""
    if i < 0 or i >= len(state.state) or kind < 0 or kind >= len(state.type_model):
        return False
    if state.state[i] != SERVING or state.type_gpus[kind] != state.type_gpus[state.type[i]]:
        return False
    state.state[i] = SWAPPING
    state.next_type[i] = kind
    state.instance_model[i] = state.type_model[kind]
    _settle(state, i)
    return True


@njit
def start_instance(state: ServingState, kind: int, after_s: float) -> int:
    """Start an instance of a type in the first place that is off; -1 if there is none."""
    for i in range(len(state.state)):
        if state.state[i] == OFF:
            state.type[i] = kind
            _become(state, i)
            state.on_since_s[i] = state.clock[NOW]
            state.role[i] = ANY_CLASS
            state.state[i] = STARTING if after_s > 0 else SERVING
            state.end_s[i] = state.clock[NOW] + after_s if after_s > 0 else np.inf
            return i
    return -1


@njit
def drain(state: ServingState, i: int) -> bool:
    """Let an instance end what it has, take no more, and go away."""
    if i < 0 or i >= len(state.state) or state.state[i] == OFF:
        return False
    state.state[i] = DRAINING
    state.next_type[i] = -1
    _settle(state, i)
    return True


@njit
def set_role(state: ServingState, i: int, role: int) -> bool:
    """Set which classes an instance is kept for."""
    if i < 0 or i >= len(state.state) or state.state[i] == OFF:
        return False
    if role < ANY_CLASS or role > BATCH_ONLY:
        return False
    state.role[i] = role
    return True


@njit
def set_limit(state: ServingState, i: int, limit: int) -> bool:
    """Set how many requests an instance may have in flight, within its server's own limit."""
    if i < 0 or i >= len(state.state) or state.state[i] == OFF:
        return False
    state.limit[i] = min(max(limit, 1), state.max_sequences[state.type[i]])
    return True
