"""The compiled simulator: the same rules as `reference.py`, at a million flow events a second.

Rates are max-min fair over bundles: each is at its own bound, or has a neck, which is a full link
on which none is faster. What begins or ends unsettles those with their neck on its links; they get
new rates while all others keep theirs, and whoever has lost its neck by that joins them, until
everybody has one. That is exact, and mostly touches a handful. Links that what crosses them cannot
fill even at its bounds need no look. Everything that happens at one time is taken together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit, reference_to
from steward.sim.fabric.traffic import LATENCY

__all__ = [
    "ENDS",
    "NEVER",
    "SHARED",
    "STARTS",
    "STEPS",
    "Engine",
    "EngineRef",
    "run",
    "set_capacity",
    "set_timer",
    "settle",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NEVER = np.inf
SATURATED = 1.0 - 1e-9
NEARLY = 1e-12
SLACK = 1e-9  # what rounding may add to a demand
MOST_LOAD = 0.95  # of a link that nothing competes for: a sender alone builds no queue
OWN_BOUND, UNSETTLED = -1, -2  # codes of Engine.neck
PACKET_BYTES = 4096.0
# Positions in Engine.counters.
STARTS, ENDS, SHARED, NEXT_FLOW, FREE_N, STAMP, QUEUE_N, STEPS = range(8)


class Engine(NamedTuple):
    """All that changes and all that it depends on; rows are links, bundles, jobs, or slots."""

    # links
    capacity: Floats
    delay_s: Floats
    full_wait_s: Floats
    head: Ints  # first entry of those that cross it now
    demand: Floats  # of what crosses it, each at its bound
    full: Ints  # 1: it is saturated, and what crosses it competes
    full_since_s: Floats
    sent: Floats  # bytes since the last reading
    stalled_s: Floats
    link_mark: Ints
    left: Floats
    weight_left: Floats
    # bundles; those of jobs come first, then flows by themselves
    variant_begin: Ints
    entry_begin: Ints  # of variants
    entry_link: Ints
    entry_weight: Floats
    entry_next: Ints
    entry_before: Ints
    entry_bundle: Ints
    volume: Floats
    flows: Ints
    limit: Floats
    owner: Ints  # job, -1 for a flow by itself
    begin_s: Floats  # of flows by themselves
    end_s: Floats  # NaN while it has not ended
    slot: Ints  # -1 while it is not sent
    taken: Ints  # the variant that is taken
    # slots
    bundle: Ints
    remaining: Floats
    slot_rate: Floats
    bound: Floats  # the rate that it would have alone
    neck: Ints  # a link, or OWN_BOUND, or UNSETTLED
    sent_slot: Floats  # bytes of each flow since the last reading
    since_s: Floats
    slot_mark: Ints
    free: Ints
    tree: Floats  # earliest end of slots and timers, over a heap-shaped tree
    # jobs
    phase_begin: Ints
    phase_kind: Ints
    phase_bundle_begin: Ints
    phase_messages: Floats
    path_begin: Ints  # of phases
    path_link_begin: Ints
    path_link: Ints
    compute_s: Floats
    overlap: Floats
    steps_left: Ints
    phase: Ints  # -1 computes, -2 waits for its computing to end, -3 has ended or not begun
    pending: Ints
    step_s: Floats  # when the step began
    last_step_s: Floats
    step_sum_s: Floats  # of steps that ended since the last reading
    step_count: Ints
    end_job_s: Floats
    # lists that are used anew each time
    links_touched: Ints
    open_links: Ints
    seeds: Ints
    slots_touched: Ints
    open_slots: Ints
    now: Floats
    counters: Ints


EngineRef, EngineRefType = reference_to("EngineRef", Engine._fields, module=__name__)


@njit
def run(engine: Engine, until_s: float, most_events: int) -> int:
    """Go on until a time, or until so many flows have begun or ended; return how many."""
    count = engine.counters
    before = count[STARTS] + count[ENDS]
    while True:
        next_s = engine.tree[1]
        flow = count[NEXT_FLOW]
        arrival_s = engine.begin_s[flow] if flow < len(engine.begin_s) else NEVER
        now_s = min(next_s, arrival_s)
        if now_s > until_s or now_s == NEVER or count[STARTS] + count[ENDS] - before >= most_events:
            break
        engine.now[0] = now_s
        _ends_now(engine, now_s)
        while flow < len(engine.begin_s) and engine.begin_s[flow] <= now_s:
            first_flow = len(engine.volume) - len(engine.begin_s)
            _begin(engine, first_flow + flow, now_s)
            flow += 1
        count[NEXT_FLOW] = flow
        if count[QUEUE_N] > 0:
            _share(engine, now_s)
    if until_s < NEVER and until_s > engine.now[0] and now_s > until_s:
        engine.now[0] = until_s
    return int(count[STARTS] + count[ENDS] - before)


@njit
def _ends_now(engine: Engine, now_s: float) -> None:
    """Let everything end that is over by now: bundles, computing, messages."""
    leaves, first_timer = len(engine.tree) // 2, len(engine.bundle)
    while engine.tree[1] <= now_s:
        at = 1
        while at < leaves:
            at = 2 * at if engine.tree[2 * at] <= engine.tree[2 * at + 1] else 2 * at + 1
        leaf = at - leaves
        if leaf >= first_timer:
            set_timer(engine, leaf, NEVER)
            _timer_ends(engine, leaf - first_timer, now_s)
        else:
            _end(engine, leaf, now_s)


@njit
def set_capacity(engine: Engine, link: int, bytes_per_s: float) -> None:
    """Give a link another capacity, from now on."""
    engine.capacity[link] = bytes_per_s
    entry = engine.head[link]
    while entry >= 0:
        slot = engine.slot[engine.entry_bundle[entry]]
        _rebound(engine, slot)
        entry = engine.entry_next[entry]
    _touch(engine, link)
    _share(engine, engine.now[0])


@njit
def set_limit(engine: Engine, bundle: int, bytes_per_s: float) -> None:
    """Limit each flow of a bundle, from now on; call `reshare` when all limits are set."""
    engine.limit[bundle] = bytes_per_s
    if engine.slot[bundle] >= 0:
        _rebound(engine, engine.slot[bundle])


@njit
def reshare(engine: Engine) -> None:
    """Give new rates where limits have changed."""
    if engine.counters[QUEUE_N] > 0:
        _share(engine, engine.now[0])


@njit
def settle(engine: Engine) -> None:
    """Add up what all links did until now, so that it can be read."""
    now_s = engine.now[0]
    for slot in range(len(engine.bundle)):
        if engine.bundle[slot] >= 0:
            _settle_slot(engine, slot, now_s)
            _hand_over(engine, slot)
    for link in range(len(engine.capacity)):
        _settle_link(engine, link, now_s)


@njit
def set_timer(engine: Engine, leaf: int, end_s: float) -> None:
    """Say when a slot or timer is over, and keep the tree right above it."""
    tree = engine.tree
    at = len(tree) // 2 + leaf
    tree[at] = end_s
    at //= 2
    while at >= 1:
        first = min(tree[2 * at], tree[2 * at + 1])
        if tree[at] == first:
            break
        tree[at] = first
        at //= 2


@njit
def _touch(engine: Engine, link: int) -> None:
    """Note that the rates over a link have to be shared out anew."""
    if engine.link_mark[link] != -1 - engine.counters[STAMP]:
        engine.link_mark[link] = -1 - engine.counters[STAMP]
        engine.seeds[engine.counters[QUEUE_N]] = link
        engine.counters[QUEUE_N] += 1


@njit
def _lightest(engine: Engine, bundle: int) -> int:
    """Return the variant whose most loaded link would carry the fewest flows for its capacity."""
    first, last = engine.variant_begin[bundle], engine.variant_begin[bundle + 1]
    best, least = first, NEVER
    if last - first == 1:
        return int(first)
    for variant in range(first, last):
        worst = 0.0
        for at in range(engine.entry_begin[variant], engine.entry_begin[variant + 1]):
            link = engine.entry_link[at]
            units = engine.entry_weight[at]
            other = engine.head[link]
            while other >= 0:
                units += engine.entry_weight[other]
                other = engine.entry_next[other]
            worst = max(worst, units / engine.capacity[link])
        if worst < least:
            best, least = variant, worst
    return int(best)


@njit
def _begin(engine: Engine, bundle: int, now_s: float) -> None:
    """Let a bundle be sent: at its bound, unless it competes with others."""
    count = engine.counters
    count[STARTS] += engine.flows[bundle]
    count[FREE_N] -= 1
    slot = engine.free[count[FREE_N]]
    variant = _lightest(engine, bundle)
    engine.taken[bundle] = variant
    engine.slot[bundle] = slot
    engine.bundle[slot] = bundle
    engine.remaining[slot] = engine.volume[bundle]
    engine.sent_slot[slot] = 0.0
    engine.since_s[slot] = now_s
    bound = _bound(engine, bundle)
    engine.bound[slot] = bound
    engine.slot_rate[slot] = bound
    engine.neck[slot] = OWN_BOUND
    for at in range(engine.entry_begin[variant], engine.entry_begin[variant + 1]):
        link = engine.entry_link[at]
        after = engine.head[link]
        engine.entry_next[at] = after
        engine.entry_before[at] = -1
        if after >= 0:
            engine.entry_before[after] = at
        engine.head[link] = at
        engine.demand[link] += engine.entry_weight[at] * bound
        if _competes(engine, link):
            _touch(engine, link)
            engine.neck[slot] = UNSETTLED
    if engine.neck[slot] == OWN_BOUND:
        set_timer(engine, slot, now_s + engine.volume[bundle] / bound)
    else:
        engine.slot_rate[slot] = 0.0


@njit
def _bound(engine: Engine, bundle: int) -> float:
    """Return the rate that each flow of a bundle would have alone."""
    variant = engine.taken[bundle]
    bound = engine.limit[bundle]
    for at in range(engine.entry_begin[variant], engine.entry_begin[variant + 1]):
        bound = min(bound, engine.capacity[engine.entry_link[at]] / engine.entry_weight[at])
    return float(bound)


@njit
def _rebound(engine: Engine, slot: int) -> None:
    """Unsettle a bundle whose bound has changed."""
    bundle = engine.bundle[slot]
    variant = engine.taken[bundle]
    bound = _bound(engine, bundle)
    change = bound - engine.bound[slot]
    engine.bound[slot] = bound
    begin, end = engine.entry_begin[variant], engine.entry_begin[variant + 1]
    engine.neck[slot] = UNSETTLED
    for at in range(begin, end):
        link = engine.entry_link[at]
        engine.demand[link] += engine.entry_weight[at] * change
        _touch(engine, link)
    if begin == end:
        _settle_slot(engine, slot, engine.now[0])
        engine.slot_rate[slot] = bound
        set_timer(engine, slot, engine.now[0] + engine.remaining[slot] / bound)


@njit
def _competes(engine: Engine, link: int) -> bool:
    """Return whether what crosses a link could fill it and more."""
    return bool(engine.demand[link] > engine.capacity[link] * (1.0 + SLACK))


@njit
def _settle_slot(engine: Engine, slot: int, now_s: float) -> None:
    """Add up what a bundle sent since its rate last changed."""
    moved = engine.slot_rate[slot] * (now_s - engine.since_s[slot])
    engine.remaining[slot] -= moved
    engine.sent_slot[slot] += moved
    engine.since_s[slot] = now_s


@njit
def _hand_over(engine: Engine, slot: int) -> None:
    """Put down to its links what a bundle has sent."""
    variant = engine.taken[engine.bundle[slot]]
    for at in range(engine.entry_begin[variant], engine.entry_begin[variant + 1]):
        engine.sent[engine.entry_link[at]] += engine.entry_weight[at] * engine.sent_slot[slot]
    engine.sent_slot[slot] = 0.0


@njit
def _end(engine: Engine, slot: int, now_s: float) -> None:
    """Take a bundle off its links; its job goes on if that was the last of a phase."""
    bundle = engine.bundle[slot]
    count = engine.counters
    count[ENDS] += engine.flows[bundle]
    _settle_slot(engine, slot, now_s)
    _hand_over(engine, slot)
    variant = engine.taken[bundle]
    for at in range(engine.entry_begin[variant], engine.entry_begin[variant + 1]):
        link = engine.entry_link[at]
        before, after = engine.entry_before[at], engine.entry_next[at]
        if before >= 0:
            engine.entry_next[before] = after
        else:
            engine.head[link] = after
        if after >= 0:
            engine.entry_before[after] = before
        if _competes(engine, link):
            _touch(engine, link)
        engine.demand[link] -= engine.entry_weight[at] * engine.bound[slot]
        if engine.head[link] < 0:
            engine.demand[link] = 0.0  # what rounding left
    set_timer(engine, slot, NEVER)
    engine.slot[bundle] = -1
    engine.bundle[slot] = -1
    engine.free[count[FREE_N]] = slot
    count[FREE_N] += 1
    engine.end_s[bundle] = now_s
    job = engine.owner[bundle]
    if job >= 0:
        engine.pending[job] -= 1
        if engine.pending[job] == 0:
            _next_phase(engine, job, now_s)


@njit
def _next_phase(engine: Engine, job: int, now_s: float) -> None:
    """Begin the next part of a job's step, or its next step."""
    first_timer = len(engine.bundle)
    while True:
        engine.phase[job] += 1
        phase = engine.phase_begin[job] + engine.phase[job]
        if phase >= engine.phase_begin[job + 1]:
            engine.phase[job] = -2
            computed_s = engine.step_s[job] + engine.compute_s[job]
            if computed_s > now_s:
                set_timer(engine, first_timer + job, computed_s)
                return
            _step_ends(engine, job, now_s)
            return
        if engine.phase_kind[phase] == LATENCY:
            slowest = _slowest_path_s(engine, phase, now_s)
            lasts_s = slowest * engine.phase_messages[phase]
            set_timer(engine, first_timer + job, now_s + lasts_s)
            return
        begin, end = engine.phase_bundle_begin[phase], engine.phase_bundle_begin[phase + 1]
        if begin < end:
            engine.pending[job] = end - begin
            for bundle in range(begin, end):
                _begin(engine, bundle, now_s)
            return


@njit
def _step_ends(engine: Engine, job: int, now_s: float) -> None:
    """Count a step, and begin the next one by computing."""
    engine.counters[STEPS] += 1
    engine.last_step_s[job] = now_s - engine.step_s[job]
    engine.step_sum_s[job] += now_s - engine.step_s[job]
    engine.step_count[job] += 1
    engine.steps_left[job] -= 1
    if engine.steps_left[job] <= 0:
        engine.phase[job] = -3
        engine.end_job_s[job] = now_s
        return
    _step_begins(engine, job, now_s)


@njit
def _step_begins(engine: Engine, job: int, now_s: float) -> None:
    engine.phase[job] = -1
    engine.step_s[job] = now_s
    alone_s = engine.compute_s[job] * (1.0 - engine.overlap[job])
    set_timer(engine, len(engine.bundle) + job, now_s + alone_s)


@njit
def _timer_ends(engine: Engine, job: int, now_s: float) -> None:
    """Go on with a job whose computing, messages, or time before its begin is over."""
    if engine.phase[job] == -3:
        _step_begins(engine, job, now_s)
    elif engine.phase[job] == -2:
        _step_ends(engine, job, now_s)
    else:
        _next_phase(engine, job, now_s)


@njit
def wait_s(engine: Engine, link: int) -> float:
    """Return the mean time in a link's queue: M/D/1, and a full queue where it is saturated."""
    if engine.full[link] == 1:
        return float(engine.full_wait_s[link])
    rate = 0.0
    entry = engine.head[link]
    while entry >= 0:
        rate += (
            engine.entry_weight[entry] * engine.slot_rate[engine.slot[engine.entry_bundle[entry]]]
        )
        entry = engine.entry_next[entry]
    load = min(rate / engine.capacity[link], MOST_LOAD)
    packet_s = PACKET_BYTES / engine.capacity[link]
    return float(min(packet_s * load / (2.0 * (1.0 - load)), engine.full_wait_s[link]))


@njit
def _slowest_path_s(engine: Engine, phase: int, now_s: float) -> float:
    """Return how long a message takes over the slowest of a phase's paths, as loads are now."""
    if engine.counters[QUEUE_N] > 0:
        _share(engine, now_s)
    slowest = 0.0
    for path in range(engine.path_begin[phase], engine.path_begin[phase + 1]):
        takes_s = 0.0
        for at in range(engine.path_link_begin[path], engine.path_link_begin[path + 1]):
            link = engine.path_link[at]
            takes_s += engine.delay_s[link] + wait_s(engine, link)
        slowest = max(slowest, takes_s)
    return slowest


@njit
def _share(engine: Engine, now_s: float) -> None:
    """Give new max-min fair rates to all that what changed matters to."""
    slots_n = _unsettled(engine, now_s)
    links_n = 0
    before = -1
    while slots_n > before:
        before = slots_n
        links_n = _links_of(engine, slots_n)
        _fill(engine, links_n, slots_n)
        for at in range(links_n):
            slots_n = _neckless(engine, engine.links_touched[at], slots_n, now_s)
        engine.counters[STAMP] += 1
        for at in range(slots_n):
            engine.slot_mark[engine.slots_touched[at]] = engine.counters[STAMP]
    for at in range(slots_n):
        slot = engine.slots_touched[at]
        rate = engine.slot_rate[slot]
        left = max(engine.remaining[slot], 0.0)
        set_timer(engine, slot, now_s + left / rate if rate > 0.0 else NEVER)
    for at in range(links_n):
        _note_fullness(engine, engine.links_touched[at], now_s)
    for at in range(engine.counters[QUEUE_N]):
        _note_fullness(engine, engine.seeds[at], now_s)
    engine.counters[QUEUE_N] = 0
    engine.counters[STAMP] += 1
    engine.counters[SHARED] += 1


@njit
def _unsettled(engine: Engine, now_s: float) -> int:
    """List what has its neck on a link where something changed; return how many."""
    slots_n = 0
    for at in range(engine.counters[QUEUE_N]):
        link = engine.seeds[at]
        entry = engine.head[link]
        while entry >= 0:
            slot = engine.slot[engine.entry_bundle[entry]]
            loose = engine.neck[slot] in (link, UNSETTLED)
            if loose and engine.slot_mark[slot] != engine.counters[STAMP]:
                slots_n = _join(engine, slot, slots_n, now_s)
            entry = engine.entry_next[entry]
    return slots_n


@njit
def _join(engine: Engine, slot: int, slots_n: int, now_s: float) -> int:
    """Add a bundle to those that get a new rate."""
    _settle_slot(engine, slot, now_s)
    engine.slot_mark[slot] = engine.counters[STAMP]
    engine.slots_touched[slots_n] = slot
    return slots_n + 1


@njit
def _links_of(engine: Engine, slots_n: int) -> int:
    """List the links on which bundles that get a new rate compete; return how many."""
    stamp = engine.counters[STAMP]
    links_n = 0
    for at in range(slots_n):
        variant = engine.taken[engine.bundle[engine.slots_touched[at]]]
        for own in range(engine.entry_begin[variant], engine.entry_begin[variant + 1]):
            link = engine.entry_link[own]
            if engine.link_mark[link] != stamp and _competes(engine, link):
                engine.link_mark[link] = stamp
                engine.links_touched[links_n] = link
                links_n += 1
    return links_n


@njit
def _fill(engine: Engine, links_n: int, slots_n: int) -> None:
    """Fill links progressively: the tightest first, then what is left of the others."""
    for at in range(slots_n):
        engine.open_slots[at] = engine.slots_touched[at]
        engine.slot_rate[engine.slots_touched[at]] = -1.0
    for at in range(links_n):
        engine.open_links[at] = engine.links_touched[at]
        _leave_over(engine, engine.links_touched[at])
    open_n = slots_n
    while open_n > 0:
        links_n, tightest, share = _tightest(engine, links_n)
        limited = False
        kept = 0
        for at in range(open_n):
            slot = engine.open_slots[at]
            if engine.slot_rate[slot] < 0.0:
                engine.open_slots[kept] = slot
                kept += 1
                if engine.bound[slot] <= share:
                    _freeze(engine, slot, engine.bound[slot], OWN_BOUND)
                    limited = True
        open_n = kept
        if open_n > 0 and not limited:
            _freeze_all(engine, engine.open_links[tightest], share)


@njit
def _leave_over(engine: Engine, link: int) -> None:
    """Work out what those that keep their rates leave of a link."""
    left, weight = engine.capacity[link], 0.0
    entry = engine.head[link]
    while entry >= 0:
        rate = engine.slot_rate[engine.slot[engine.entry_bundle[entry]]]
        if rate < 0.0:
            weight += engine.entry_weight[entry]
        else:
            left -= engine.entry_weight[entry] * rate
        entry = engine.entry_next[entry]
    engine.left[link] = max(left, 0.0)
    engine.weight_left[link] = weight


@njit
def _tightest(engine: Engine, links_n: int) -> tuple[int, int, float]:
    """Return which link gives the smallest share; those that nothing open crosses are left out."""
    links, left, weight_left = engine.open_links, engine.left, engine.weight_left
    share = NEVER
    tightest = -1
    kept = 0
    for at in range(links_n):
        link = links[at]
        weight = weight_left[link]
        if weight > 1e-9:
            links[kept] = link
            fair = left[link] / weight
            if fair < share:
                share, tightest = fair, kept
            kept += 1
    return kept, tightest, share


@njit
def _freeze_all(engine: Engine, link: int, share: float) -> None:
    """Fix the rates of all bundles over a link that have none yet."""
    entry = engine.head[link]
    while entry >= 0:
        slot = engine.slot[engine.entry_bundle[entry]]
        if engine.slot_rate[slot] < 0.0:
            _freeze(engine, slot, share, link)
        entry = engine.entry_next[entry]
    engine.weight_left[link] = 0.0


@njit
def _freeze(engine: Engine, slot: int, rate: float, neck: int) -> None:
    """Fix the rate of a bundle, and take it off its links."""
    engine.slot_rate[slot] = rate
    engine.neck[slot] = neck
    variant = engine.taken[engine.bundle[slot]]
    for own in range(engine.entry_begin[variant], engine.entry_begin[variant + 1]):
        link = engine.entry_link[own]
        weight = engine.entry_weight[own]
        engine.left[link] = max(0.0, engine.left[link] - weight * rate)
        engine.weight_left[link] -= weight


@njit
def _neckless(engine: Engine, link: int, slots_n: int, now_s: float) -> int:
    """Add bundles that have lost their neck on a link, or are in the way of one with it there."""
    total, fastest, share = 0.0, 0.0, NEVER
    entry = engine.head[link]
    while entry >= 0:
        slot = engine.slot[engine.entry_bundle[entry]]
        rate = engine.slot_rate[slot]
        total += engine.entry_weight[entry] * rate
        fastest = max(fastest, rate)
        if engine.neck[slot] == link:
            share = min(share, rate)
        entry = engine.entry_next[entry]
    full = total >= engine.capacity[link] * (1.0 - NEARLY)
    entry = engine.head[link]
    while entry >= 0:
        slot = engine.slot[engine.entry_bundle[entry]]
        if engine.slot_mark[slot] != engine.counters[STAMP]:
            rate = engine.slot_rate[slot]
            lost = engine.neck[slot] == link and (not full or rate < fastest * (1.0 - NEARLY))
            if lost or rate > share * (1.0 + NEARLY):
                slots_n = _join(engine, slot, slots_n, now_s)
        entry = engine.entry_next[entry]
    return slots_n


@njit
def _note_fullness(engine: Engine, link: int, now_s: float) -> None:
    """Note since when a link is saturated, or for how long it was."""
    _settle_link(engine, link, now_s)
    full = 0
    if _competes(engine, link):
        total = 0.0
        entry = engine.head[link]
        while entry >= 0:
            slot = engine.slot[engine.entry_bundle[entry]]
            total += engine.entry_weight[entry] * engine.slot_rate[slot]
            entry = engine.entry_next[entry]
        full = 1 if total >= engine.capacity[link] * SATURATED else 0
    engine.full[link] = full


@njit
def _settle_link(engine: Engine, link: int, now_s: float) -> None:
    """Add up for how long a link was saturated."""
    if engine.full[link] == 1:
        engine.stalled_s[link] += now_s - engine.full_since_s[link]
    engine.full_since_s[link] = now_s
