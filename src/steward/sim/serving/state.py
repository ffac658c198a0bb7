"""Everything the compiled simulator works on: arrays of requests, types, instances and blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit, reference_to
from steward.model.serving.instance_type import InstanceType
from steward.model.serving.kv_tiers import KvTiers
from steward.model.serving.requests import RequestTrace
from steward.model.serving.view import OFF

__all__ = [
    "ServingState",
    "by_reference",
    "empty_state",
]

Array = NDArray[Any]


class ServingState(NamedTuple):
    """Arrays only, so that compiled code can pass it on.

    Rows are requests (the first block), types, instances, or (instance, place). An instance is
    always at a step's boundary: at the start of what `steps` and `end_s` plan, with `held`,
    `computed` and `free` as they are before it.
    """

    # requests
    arrival_s: Array
    prompt: Array
    output: Array
    model: Array
    deadline_class: Array
    tenant: Array
    prefix_ids: Array
    prefix_start: Array
    status: Array  # codes of RequestColumns.state
    instance: Array  # where it is; -1 in the queue and when it is done
    last_instance: Array  # where it was sent last
    generated: Array  # tokens that its client has
    computed: Array  # tokens in the KV cache
    target: Array  # tokens that have to be in the cache before the next one can be made
    blocks: Array  # KV blocks of its own
    pinned: Array  # leading prefix blocks that it shares
    chunk: Array  # prompt tokens in the step that runs
    evicted: Array  # 1: goes back to the queue when the step ends
    sent_s: Array
    first_s: Array  # when it got its first token
    finish_s: Array
    preemptions: Array
    returns: Array  # how often it came back to the queue: evicted, or its instance failed
    reused: Array  # prompt tokens that were found in a prefix cache
    # types
    coefficient: Array  # (type, 8), as StepTimes.coefficients
    type_model: Array
    type_gpus: Array
    type_blocks: Array
    block_tokens: Array
    max_sequences: Array
    max_tokens: Array
    max_waiting: Array
    watermark: Array  # in blocks
    start_s: Array
    swap_s: Array  # (type, the type that it becomes)
    # instances
    type: Array
    instance_model: Array
    state: Array
    limit: Array
    room: Array
    running_n: Array
    waiting_n: Array
    running: Array  # (instance, place): requests in the order of their admission
    waiting: Array  # (instance, place): requests in the order of arrival
    decoding: Array  # how many of the running ones
    held: Array  # tokens in the cache of running requests
    free: Array  # blocks, with those of idle prefix blocks
    stale: Array  # 1: a new step has to be planned
    begin_s: Array  # of the stretch that runs
    end_s: Array  # of the stretch, of starting or of swapping; infinite when idle
    steps: Array  # of the stretch; 0 when idle
    first_step_s: Array
    growth_s: Array  # how much longer each further step takes
    next_type: Array  # what a swapping instance becomes
    on_since_s: Array
    gpu_seconds: Array
    role: Array
    made: Array  # output tokens so far
    between_s: Array  # the time between these tokens, summed up
    # prefix caches, (instance, prefix block); the last column is the list's two ends
    users: Array  # -1: not cached
    older: Array
    newer: Array
    idle: Array  # by instance: cached blocks without users, least recently used first
    # offloaded prefix blocks: of each instance on its host, and of all in remote memory
    kv_host: Array  # (instance, place): blocks
    kv_host_n: Array
    kv_at_host: Array  # (instance, block): place + 1; 0: it is not there
    kv_remote: Array
    kv_at_remote: Array
    kv_value: Array  # by block: the least is dropped first
    kv_last_s: Array  # by block: when a request last had it
    kv_uses: Array  # by block: requests that had it, since somebody counted
    kv_load_s: Array  # by instance: what the next step waits for blocks that come back
    kv_costs: Array  # seconds for a block from the host, from remote memory
    kv_counts: Array  # see the positions below
    # the gateway
    served: Array  # (class, tenant): virtual token counters
    present: Array  # (class, tenant): requests that have arrived and not ended
    queue: Array
    ended: Array  # requests that were finished, in the order of their ends
    failure_s: Array
    failure_instance: Array
    down_s: Array
    route_request: Array
    route_instance: Array
    counts: Array  # see the positions below
    limits: Array  # see the positions below
    clock: Array  # now; the next tick, infinite without one


# Positions in `counts` and `limits`.
NEXT_ARRIVAL, QUEUE_N, NEXT_FAILURE, ROUTES, DECIDE, STEPS, UNDONE, ENDED_N = range(8)
PREFIX_TOKENS, EVERY_STEP, WITHOUT_ROOM = range(3)
NOW, TICK = range(2)
KV_REMOTE_N, KV_STORED, KV_FROM_HOST, KV_FROM_REMOTE, KV_DROPPED = range(5)

StateRef, StateRefType = reference_to("StateRef", ServingState._fields, module=__name__)


@njit
def by_reference(state: ServingState) -> Any:  # noqa: ANN401 - has the fields of a ServingState
    """Return the same state as a record that compiled functions pass on by reference."""
    return StateRef(
        state.arrival_s,
        state.prompt,
        state.output,
        state.model,
        state.deadline_class,
        state.tenant,
        state.prefix_ids,
        state.prefix_start,
        state.status,
        state.instance,
        state.last_instance,
        state.generated,
        state.computed,
        state.target,
        state.blocks,
        state.pinned,
        state.chunk,
        state.evicted,
        state.sent_s,
        state.first_s,
        state.finish_s,
        state.preemptions,
        state.returns,
        state.reused,
        state.coefficient,
        state.type_model,
        state.type_gpus,
        state.type_blocks,
        state.block_tokens,
        state.max_sequences,
        state.max_tokens,
        state.max_waiting,
        state.watermark,
        state.start_s,
        state.swap_s,
        state.type,
        state.instance_model,
        state.state,
        state.limit,
        state.room,
        state.running_n,
        state.waiting_n,
        state.running,
        state.waiting,
        state.decoding,
        state.held,
        state.free,
        state.stale,
        state.begin_s,
        state.end_s,
        state.steps,
        state.first_step_s,
        state.growth_s,
        state.next_type,
        state.on_since_s,
        state.gpu_seconds,
        state.role,
        state.made,
        state.between_s,
        state.users,
        state.older,
        state.newer,
        state.idle,
        state.kv_host,
        state.kv_host_n,
        state.kv_at_host,
        state.kv_remote,
        state.kv_at_remote,
        state.kv_value,
        state.kv_last_s,
        state.kv_uses,
        state.kv_load_s,
        state.kv_costs,
        state.kv_counts,
        state.served,
        state.present,
        state.queue,
        state.ended,
        state.failure_s,
        state.failure_instance,
        state.down_s,
        state.route_request,
        state.route_instance,
        state.counts,
        state.limits,
        state.clock,
    )


def empty_state(
    trace: RequestTrace,
    types: Sequence[InstanceType],
    *,
    models: Sequence[str],
    places: int,
    failures: Sequence[tuple[float, int, float]],
    offload: KvTiers | None = None,
) -> ServingState:
    """Return the state before the first request, with room for `places` instances, all off."""
    widest = max(each.max_sequences for each in types)
    blocks = int(trace.prefix_ids.max(initial=-1)) + 1 if trace.prefix_block_tokens else 0
    table = sorted(failures)
    return ServingState(
        **_requests(trace, models),
        **_types(types, models),
        **_instances(places, widest),
        users=np.full((places, blocks + 1), -1, np.int32),
        older=np.full((places, blocks + 1), blocks, np.int32),
        newer=np.full((places, blocks + 1), blocks, np.int32),
        idle=np.zeros(places, np.int64),
        **_offload(offload or KvTiers(), places, blocks),
        served=np.zeros((len(trace.classes), len(trace.tenants))),
        present=np.zeros((len(trace.classes), len(trace.tenants)), np.int64),
        queue=np.zeros(len(trace) + 1, np.int64),
        ended=np.zeros(len(trace), np.int64),
        failure_s=np.array([each[0] for each in table], np.float64),
        failure_instance=np.array([each[1] for each in table], np.int64),
        down_s=np.array([each[2] for each in table], np.float64),
        route_request=np.zeros(places * widest, np.int64),
        route_instance=np.zeros(places * widest, np.int64),
        counts=np.zeros(8, np.int64),
        limits=np.array([trace.prefix_block_tokens, 0, 0], np.int64),
        clock=np.array([0.0, np.inf]),
    )


def _offload(tiers: KvTiers, places: int, blocks: int) -> dict[str, Array]:
    return {
        "kv_host": np.full((places, tiers.host_blocks), -1, np.int64),
        "kv_host_n": np.zeros(places, np.int64),
        "kv_at_host": np.zeros((places, blocks if tiers.host_blocks else 0), np.int64),
        "kv_remote": np.full(tiers.remote_blocks, -1, np.int64),
        "kv_at_remote": np.zeros(blocks if tiers.remote_blocks else 0, np.int64),
        "kv_value": np.zeros(blocks),
        "kv_last_s": np.full(blocks, -np.inf),
        "kv_uses": np.zeros(blocks, np.int64),
        "kv_load_s": np.zeros(places),
        "kv_costs": np.array([tiers.host_s, tiers.remote_s]),
        "kv_counts": np.zeros(5, np.int64),
    }


def _requests(trace: RequestTrace, models: Sequence[str]) -> dict[str, Array]:
    count = len(trace)
    ints = {
        name: np.zeros(count, np.int64)
        for name in (
            *("status", "generated", "computed", "target", "blocks", "pinned", "chunk"),
            *("evicted", "preemptions", "returns", "reused"),
        )
    }
    code = np.array([models.index(name) for name in trace.models] + [0], np.int64)
    return {
        "arrival_s": trace.arrival_s,
        "prompt": trace.prompt_tokens,
        "output": trace.output_tokens,
        "deadline_class": trace.deadline_class,
        "tenant": trace.tenant,
        "model": code[trace.model],  # without a name: -1 is the last, the first model
        "prefix_ids": trace.prefix_ids,
        "prefix_start": trace.prefix_start,
        "instance": np.full(count, -1, np.int64),
        "last_instance": np.full(count, -1, np.int64),
        **{name: np.full(count, np.nan) for name in ("sent_s", "first_s", "finish_s")},
        **ints,
    }


def _types(types: Sequence[InstanceType], models: Sequence[str]) -> dict[str, Array]:
    def column(values: Sequence[Any], kind: type = np.int64) -> Array:
        return np.array(values, kind)

    blocks = [each.kv_tokens // each.block_tokens for each in types]
    return {
        "coefficient": column([each.step_times.coefficients() for each in types], np.float64),
        "type_model": column([models.index(each.model) for each in types]),
        "type_gpus": column([each.gpus for each in types]),
        "type_blocks": column(blocks),
        "block_tokens": column([each.block_tokens for each in types]),
        "max_sequences": column([each.max_sequences for each in types]),
        "max_tokens": column([each.max_batched_tokens for each in types]),
        "max_waiting": column([each.max_waiting for each in types]),
        "watermark": column(
            [int(each.watermark_share * n) for each, n in zip(types, blocks, strict=True)]
        ),
        "start_s": column([each.start_s for each in types], np.float64),
        "swap_s": column([[to.swap_from_s(each) for to in types] for each in types], np.float64),
    }


def _instances(places: int, widest: int) -> dict[str, Array]:
    ints = (
        *("type", "instance_model", "limit", "room", "running_n", "waiting_n", "decoding"),
        *("held", "free", "stale", "steps", "role", "made"),
    )
    floats = ("begin_s", "first_step_s", "growth_s", "on_since_s", "gpu_seconds", "between_s")
    return {
        **{name: np.zeros(places, np.int64) for name in ints},
        **{name: np.zeros(places) for name in floats},
        "state": np.full(places, OFF, np.int64),
        "next_type": np.full(places, -1, np.int64),
        "end_s": np.full(places, np.inf),
        "running": np.zeros((places, widest), np.int64),
        "waiting": np.zeros((places, widest), np.int64),
    }
