"""Everything that the compiled memory simulator works on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.model.memory.tiers import LINE_BYTES, MemorySystem
from steward.model.memory.trace import AccessTrace
from steward.model.memory.view import NOWHERE, OnTouch

__all__ = ["MODES", "PageState", "empty_state"]

Array = NDArray[Any]
MODES = ("none", "fault", "lru", "two-queue", "lfu", "trap")


class PageState(NamedTuple):
    """Arrays only, so that compiled code can pass it on. Rows are accesses, pages or tiers."""

    # the trace and the load of others, by slots of time that repeat
    page: Array
    think_s: Array
    load: Array
    wire_s: Array  # of one access to a linked tier: on the wire and behind packets of others
    meet_s: Array  # what an access waits that meets a copy
    # pages
    tier: Array
    ready_s: Array  # when its last copy has arrived
    hits: Array  # accesses in this epoch
    last_epoch: Array  # of the last access; -1: never
    touched: Array  # rows with accesses in this epoch
    unmapped: Array  # 1: its next access is a hint fault
    faults: Array  # hint faults that count
    fault_epoch: Array
    demoted_epoch: Array
    frequency: Array
    ghost: Array  # serial number at which it left the first queue; -1: never
    older: Array  # lists of near pages; the last two places are the ends of both lists
    newer: Array
    queue: Array  # which list it is in; -1: none
    # tiers
    used: Array
    room: Array
    hit_s: Array  # stall of an access without load
    linked: Array
    # single numbers: see the positions below
    floats: Array
    clock: Array
    counts: Array
    limits: Array


# Positions in `floats`, `clock`, `counts` and `limits`.
SLOT_S, RATE, PAGE, MOVE_S, FAULT_S, WATCH_S = range(6)
NOW, STALL, BULK_FREE, THINK = range(4)
(
    AT,
    TOUCHED,
    PROMOTED,
    DEMOTED,
    FAULTS,
    NEAR,
    FAR,
    EPOCH,
    RATE_USED,
    SCAN_AT,
    SERIAL,
    IN_FIRST,
    HAND,
    PING_PONG,
    EPOCH_FAR,
    FAILED,
    EPOCH_PROMOTED,
    TRAPS,
) = range(18)
(MODE, NEEDED, WINDOW, RATE_LIMIT, WATERMARK, NEAR_FAULTS, SCAN, FIRST_MOST, GHOSTS, WATCHES) = (
    range(10)
)
PING_PONG_EPOCHS = 16


def empty_state(
    trace: AccessTrace, system: MemorySystem, on_touch: OnTouch, load: Array, slot_s: float
) -> PageState:
    """Return the state before the first access: no page is anywhere."""
    pages, tiers = trace.pages, system.tiers
    near = tiers[0].pages
    costs = system.costs
    floats = (
        slot_s,
        system.link_bytes_per_s,
        float(system.page_bytes),
        costs.move_s,
        costs.fault_s,
        costs.watch_s,
    )
    limits = (
        MODES.index(on_touch.mode),
        on_touch.needed,
        on_touch.window_epochs,
        on_touch.rate_pages,
        int(on_touch.watermark_share * near),
        int(on_touch.near_faults),
        int(np.ceil(on_touch.scan_share * pages)),
        max(1, near // 4),
        max(1, near // 2),
        int(on_touch.watches),
    )
    links = np.full(pages + 2, -1, np.int32)
    links[pages:] = (pages, pages + 1)
    free = 1.0 - load
    wire_s = system.lines * LINE_BYTES / (system.link_bytes_per_s * free)
    return PageState(
        page=trace.page,
        think_s=trace.think_s,
        load=load,
        wire_s=wire_s + system.packet_s * load / free,
        meet_s=0.5 * system.page_bytes / (system.link_bytes_per_s * free),
        tier=np.full(pages, NOWHERE, np.int8),
        ready_s=np.zeros(pages),
        hits=np.zeros(pages, np.int32),
        last_epoch=np.full(pages, -1, np.int32),
        touched=np.zeros(pages, np.int32),
        unmapped=np.zeros(pages, np.uint8),
        faults=np.zeros(pages, np.int32),
        fault_epoch=np.full(pages, -(2**30), np.int32),
        demoted_epoch=np.full(pages, -(2**30), np.int32),
        frequency=np.zeros(pages, np.int32),
        ghost=np.full(pages, -1, np.int64),
        older=links,
        newer=links.copy(),
        queue=np.full(pages, -1, np.int8),
        used=np.zeros(len(tiers), np.int64),
        room=np.array([each.pages for each in tiers], np.int64),
        hit_s=np.array([system.lines * each.latency_s / system.parallel for each in tiers]),
        linked=np.array([each.linked for each in tiers], np.bool_),
        floats=np.array(floats, np.float64),
        clock=np.zeros(4),
        counts=np.zeros(18, np.int64),
        limits=np.array(limits, np.int64),
    )
