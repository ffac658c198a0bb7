"""Lays a fabric and its traffic out as the arrays that the compiled simulator works on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.fabric.topology import FabricTopology
from steward.sim.fabric.engine import NEVER, Engine
from steward.sim.fabric.traffic import Bundle, Phase, Traffic

__all__ = ["BUFFER_BYTES", "engine_of"]

BUFFER_BYTES = 400e3  # of a port; at 100 Gbit/s a full one is 32 us, as switches mark at
Ints = NDArray[np.int64]
_LINK_SUMS = ("demand", "full_since_s", "sent", "stalled_s", "left", "weight_left")


def engine_of(
    topology: FabricTopology,
    traffic: Traffic,
    *,
    slots: int = 0,
    buffer_bytes: float = BUFFER_BYTES,
) -> Engine:
    """Return the engine at time 0. Every link needs a capacity.

    `slots` is how many bundles may be sent at once; enough for all of them unless said.
    """
    capacity = np.where(topology.links.up, topology.links.bytes_per_s, 1e-300)
    if np.isnan(capacity).any():
        link = topology.names_of_links[int(np.flatnonzero(np.isnan(capacity))[0])]
        raise StewardError(
            f"the capacity of {link} is not known",
            where=topology.origin,
            hint="give one for all links whose capacity is not known",
        )
    phases = [phase for job in traffic.jobs for phase in job.phases]
    bundles = [each for phase in phases for each in phase.bundles]
    owner = [at for at, job in enumerate(traffic.jobs) for p in job.phases for _ in p.bundles]
    every: list[Bundle] = [*bundles, *traffic.flows]
    at_once = slots or max(len(every), 1)
    count = len(capacity)
    delay = topology.links.delay_s
    columns: dict[str, Any] = {
        "capacity": capacity.astype(np.float64),
        "delay_s": np.where(np.isnan(delay), 5e-7, delay),
        "full_wait_s": buffer_bytes / np.maximum(capacity, 1.0),
        "head": np.full(count, -1, np.int64),
        "link_mark": np.zeros(count, np.int64),
        "links_touched": np.zeros(count, np.int64),
        "seeds": np.zeros(count, np.int64),
        "open_links": np.zeros(count, np.int64),
        "full": np.zeros(count, np.int64),
        **{name: np.zeros(count) for name in _LINK_SUMS},
        **_bundle_columns(every, owner + [-1] * len(traffic.flows)),
        "begin_s": np.ascontiguousarray(traffic.begin_s, np.float64),
        **_slot_columns(at_once, traffic),
        **_job_columns(traffic, phases),
        "now": np.zeros(1),
    }
    counters = np.zeros(8, np.int64)
    counters[4] = at_once  # all slots are free
    counters[5] = 1  # marks are 0
    return Engine(**columns, counters=counters)


def _bundle_columns(bundles: Sequence[Bundle], owner: Sequence[int]) -> dict[str, Any]:
    variants = [(at, each) for at, bundle in enumerate(bundles) for each in bundle.variants]
    entries = [np.unique(links, return_counts=True) for _, links in variants]
    sizes = [len(links) for links, _ in entries]
    link = _joined([links for links, _ in entries])
    total = len(link)
    return {
        "variant_begin": _begins(len(each.variants) for each in bundles),
        "entry_begin": _begins(sizes),
        "entry_link": link,
        "entry_weight": _joined([weights for _, weights in entries]).astype(np.float64),
        "entry_next": np.full(total, -1, np.int64),
        "entry_before": np.full(total, -1, np.int64),
        "entry_bundle": np.repeat(np.array([at for at, _ in variants], np.int64), sizes),
        "volume": np.array([each.volume for each in bundles], np.float64),
        "flows": np.array([each.flows for each in bundles], np.int64),
        "limit": np.array([each.limit for each in bundles], np.float64),
        "owner": np.array(owner, np.int64),
        "end_s": np.full(len(bundles), np.nan),
        "slot": np.full(len(bundles), -1, np.int64),
        "taken": np.zeros(len(bundles), np.int64),
    }


def _slot_columns(slots: int, traffic: Traffic) -> dict[str, Any]:
    jobs = traffic.jobs
    leaves = 1 << max(1, (slots + len(jobs) - 1).bit_length())
    tree = np.full(2 * leaves, NEVER)
    tree[leaves + slots : leaves + slots + len(jobs)] = [each.begin_s for each in jobs]
    for at in range(leaves - 1, 0, -1):
        tree[at] = min(tree[2 * at], tree[2 * at + 1])
    return {
        "bundle": np.full(slots, -1, np.int64),
        "remaining": np.zeros(slots),
        "slot_rate": np.zeros(slots),
        "bound": np.zeros(slots),
        "neck": np.zeros(slots, np.int64),
        "sent_slot": np.zeros(slots),
        "since_s": np.zeros(slots),
        "slot_mark": np.zeros(slots, np.int64),
        "free": np.arange(slots - 1, -1, -1, dtype=np.int64),
        "slots_touched": np.zeros(slots, np.int64),
        "open_slots": np.zeros(slots, np.int64),
        "tree": tree,
    }


def _job_columns(traffic: Traffic, phases: Sequence[Phase]) -> dict[str, Any]:
    jobs = traffic.jobs
    paths = [path for phase in phases for path in phase.paths]
    return {
        "phase_begin": _begins(len(each.phases) for each in jobs),
        "phase_kind": np.array([each.kind for each in phases], np.int64),
        "phase_bundle_begin": _begins(len(each.bundles) for each in phases),
        "phase_messages": np.array([each.messages for each in phases], np.float64),
        "path_begin": _begins(len(each.paths) for each in phases),
        "path_link_begin": _begins(len(each) for each in paths),
        "path_link": _joined(paths),
        "compute_s": np.array([each.compute_s for each in jobs], np.float64),
        "overlap": np.array([each.overlap for each in jobs], np.float64),
        "steps_left": np.array([each.steps for each in jobs], np.int64),
        "phase": np.full(len(jobs), -3, np.int64),
        "pending": np.zeros(len(jobs), np.int64),
        "step_s": np.zeros(len(jobs)),
        "last_step_s": np.full(len(jobs), np.nan),
        "step_sum_s": np.zeros(len(jobs)),
        "step_count": np.zeros(len(jobs), np.int64),
        "end_job_s": np.full(len(jobs), np.nan),
    }


def _begins(sizes: Iterable[int]) -> Ints:
    return np.concatenate([[0], np.cumsum(np.fromiter(sizes, np.int64))]).astype(np.int64)


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)
