"""Replays a trace under a rank-based policy, at full speed."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from steward.decide.placement import PLACEMENTS, Placement
from steward.decide.placement.columns import demands_of, free_nodes, guide_of
from steward.decide.placement.scores import Guide
from steward.decide.scheduling.classes import class_weights
from steward.decide.scheduling.goals import preference
from steward.decide.scheduling.kernels.allocation import Allocation, AllocationCount
from steward.decide.scheduling.kernels.driver import empty_log
from steward.decide.scheduling.kernels.queue_state import QueueState, empty_queue_state
from steward.decide.scheduling.ranking import Law, Ranking, Sharing
from steward.errors import StewardError
from steward.learn.boosting import BoostedDurations
from steward.learn.experience import blank_experience
from steward.model.machines import Machines, machines_of
from steward.model.replay import Replay, Segments
from steward.model.trace import Trace, trace_of
from steward.sim.lab.rigid.engine import Pause, advance
from steward.sim.lab.rigid.heap import empty_heap
from steward.sim.lab.rigid.replay_state import (
    Counter,
    PolicyParameters,
    ReplayState,
    empty_spans,
    grown,
)
from steward.sim.lab.settings import LabSettings

__all__ = ["replay_rigid", "time_limits", "warm_up"]

MILLI = 1000
_MOST_POOLS = 62  # they are bits of a number
_TURNS = 200_000
_TURNS_BETWEEN_LESSONS = 1000


def replay_rigid(
    trace: Trace,
    machines: Machines,
    ranking: Ranking,
    settings: LabSettings,
    *,
    name: str,
    progress: Callable[[float], None] | None = None,
) -> Replay:
    """Run all jobs to their end. Jobs that fit nowhere stay unfinished, with a note."""
    warm_up()
    trees = BoostedDurations(trace) if ranking.rolling < 1.0 else None
    began = time.process_time()
    quota = settings.quota_of(trace, machines)
    state = _replay_state(trace, _pools(machines), ranking, settings, quota)
    policy = _parameters(ranking, every_level=settings.every_level)
    turns = _TURNS if trees is None else _TURNS_BETWEEN_LESSONS
    while (pause := Pause(advance(state, policy, turns))) != Pause.FINISHED:
        if trees is not None:
            _teach(trees, state)
        if pause == Pause.ROOM:
            state = state._replace(
                spans=grown(state.spans, 2 * len(state.spans.job) + 1024),
                heap=grown(state.heap, 2 * len(state.heap.time_s) + 4096),
            )
        elif progress is not None:
            progress(state.counters[Counter.FINISHED] / max(len(trace), 1))
    cpu_s = time.process_time() - began
    left = int(np.isnan(state.end_s).sum())
    within = ranking.sharing is Sharing.STATIC
    why = "they ask for more than their tenant's quota" if within else "they fit nowhere"
    notes = (f"{left} jobs never ran to their end: {why}",) if left else ()
    return replace(_record(state, trace, machines, quota, name), cpu_s=cpu_s, notes=notes)


def _teach(trees: BoostedDurations, state: ReplayState) -> None:
    """Let trees learn from the jobs that have ended, and speak about those that are to come."""
    ended = np.flatnonzero(~np.isnan(state.end_s))
    if trees.learns(ended):
        coming = np.arange(state.counters[Counter.NEXT], len(state.end_s))
        state.boosted_s[coming] = trees.learn(ended, coming) * (state.queue.need[coming] / MILLI)


@functools.cache
def warm_up() -> None:
    """Compile, or load what was compiled, before any clock runs. Once per process."""
    trace = trace_of("one job", submit_s=[0.0], duration_s=[1.0], gpus=[1.0])
    one = Ranking(law=Law.ARRIVAL)
    advance(
        _replay_state(trace, machines_of(1), one, LabSettings(), np.ones(1)), _parameters(one), 10
    )


def _pools(machines: Machines) -> Machines:
    """Return the machines as the engine tells them apart: by pool instead of by GPU type."""
    pools = machines.by_pool()
    if len(pools.types) > _MOST_POOLS:
        raise StewardError(
            f"machines of {len(pools.types)} kinds; a replay can tell {_MOST_POOLS} apart",
            hint="leave out clusters, or differences of price and boot time",
        )
    return pools


def _parameters(ranking: Ranking, *, every_level: bool = False) -> PolicyParameters:
    return PolicyParameters(
        law=int(ranking.law),
        walk=int(ranking.walk),
        ties=int(ranking.ties),
        preempts=int(ranking.preempts),
        by_gpus=int(ranking.by_gpus),
        every_level=int(every_level),
        by_loss=int(ranking.law is Law.EXPERIENCE),
        sharing=int(ranking.sharing),
        thresholds=np.asarray(ranking.thresholds, np.float64),
        promote=float(ranking.promote),
        patience=float(ranking.patience),
        depth=int(ranking.depth),
        interval_s=float(ranking.interval_s),
        half_life_s=float(ranking.half_life_s),
        old_s=float(ranking.old_s),
        rolling=float(ranking.rolling),
        lead=float(ranking.lead),
        gang_wait_s=np.inf if ranking.moves else float(ranking.gang_wait_s),
    )


def _replay_state(
    trace: Trace,
    machines: Machines,
    ranking: Ranking,
    settings: LabSettings,
    quota: np.ndarray,
) -> ReplayState:
    n, ints = len(trace), np.int64
    queue = _queue_state(trace, machines, ranking, settings, quota)
    most = len(queue.running)
    now_s = np.array([0.0, -np.inf, 0.0, np.inf])
    parent, leaf = similar(trace)
    if not ranking.similar:
        leaf = np.zeros(n, ints)
    dependents_from, dependents, needs = _dependencies(trace)
    change_s, change_node, change_milli, change_warning_s = _changes(machines)
    price = np.where(np.isnan(trace.checkpoint_s), settings.checkpoint_s, trace.checkpoint_s)
    queue.stop_cost_s[:] = price
    return ReplayState(
        queue=queue,
        alloc=_allocation(trace, machines, ranking, settings, most=most, now_s=now_s),
        log=empty_log(n + 2 * most),
        heap=empty_heap(8 * most + 4096),
        spans=empty_spans(2 * n + most + 1024),
        experience=blank_experience(parent, strength=ranking.strength, memory=ranking.memory),
        submit_s=trace.submit_s.copy(),
        duration_s=trace.duration_s.copy(),
        known_s=_known(trace, settings),
        predicted_s=np.zeros(n),
        boosted_s=np.zeros(n),
        price_s=price,
        weight=class_weights(trace.priority, ranking.class_weight),
        due_s=_due(trace) if ranking.deadlines else np.full(n, np.inf),
        every_s=np.full(n, settings.saves_every_s),
        leaf=leaf,
        dependents=dependents,
        dependents_from=dependents_from,
        needs=needs,
        job_state=np.zeros(n, np.int8),
        work_s=trace.duration_s.copy(),
        attained_s=np.zeros(n),
        forgiven_s=np.zeros(n),
        before_s=np.zeros(n),
        rate=np.ones(n),
        stamp=np.zeros(n, ints),
        review_s=np.full(n, np.inf),
        level=np.zeros(n, ints),
        stops=np.zeros(n, ints),
        lost_s=np.zeros(n),
        waited_s=np.zeros(n),
        first_s=np.full(n, np.nan),
        end_s=np.full(n, np.nan),
        span=np.full(n, -1, ints),
        type_speed=_speeds(machines, settings),
        boot_s=machines.boot_s[_one_of_each(machines)],
        slowdown=1.0 / np.asarray(settings.locality_slowdown, np.float64),
        change_s=change_s,
        change_node=change_node,
        change_type=machines.type[change_node],
        change_milli=change_milli,
        change_warning_s=change_warning_s,
        now_s=now_s,
        counters=np.zeros(len(Counter), ints),
    )


def _allocation(
    trace: Trace,
    machines: Machines,
    ranking: Ranking,
    settings: LabSettings,
    *,
    most: int,
    now_s: np.ndarray,
) -> Allocation:
    """Return an allocation in which nothing runs, with room for `most` jobs at once."""
    ints, placement = np.int64, PLACEMENTS[settings.placement]
    fraction = (trace.gpus > 0) & (trace.gpus < 1)
    spread = 1 if placement == Placement.COUNT else len(machines)
    return Allocation(
        placement=int(placement),
        placed=int(placement != Placement.COUNT),
        guide=_guide(trace, machines, placement, settings),
        nodes=free_nodes(
            machines,
            fractions=bool(fraction.any()) or placement > Placement.TOPOLOGY,
            sizes=placement == Placement.GPU_CLUSTERING,
        ),
        gpus=np.where(fraction, 0, trace.gpus).astype(ints),
        milli=np.where(fraction, np.round(trace.gpus * MILLI), 0).astype(ints),
        cpus=np.nan_to_num(trace.cpus),
        memory=np.nan_to_num(trace.memory_bytes),
        may_stop=np.ones(len(trace), np.int8),
        slots=np.concatenate(([most], np.arange(most))).astype(ints),
        slot=np.full(len(trace), -1, ints),
        slot_node=np.zeros((most + 1, spread), ints),
        slot_gpus=np.zeros((most + 1, spread), ints),
        slot_n=np.zeros(most + 1, ints),
        unplaced=np.zeros(max(most, 256), ints),
        freed=np.zeros(most, ints),
        moved=np.zeros(most, ints),
        counts=np.zeros(len(AllocationCount), ints),
        moves=int(ranking.moves),
        kept_s=np.full(len(machines), np.inf),
        now_s=now_s,
    )


def _queue_state(
    trace: Trace,
    machines: Machines,
    ranking: Ranking,
    settings: LabSettings,
    quota: np.ndarray,
) -> QueueState:
    tenants = len(trace.tenants) + 1
    tenant = np.where(trace.tenant < 0, tenants - 1, trace.tenant)
    one_queue = ranking.sharing == Sharing.ONE_QUEUE
    queue_of = np.zeros(len(trace), np.int64) if one_queue else tenant
    queues = np.bincount(queue_of, minlength=1 if one_queue else tenants)
    capacity = np.bincount(
        machines.type, machines.gpus * machines.up * MILLI, minlength=len(machines.types)
    ).astype(np.int64)
    ever = int(machines.gpus.sum())
    smallest = float(trace.gpus[trace.gpus > 0].min()) if (trace.gpus > 0).any() else 1.0
    without_gpu = int((trace.gpus == 0).sum())
    most = min(len(trace), int(ever / min(smallest, 1.0)) + without_gpu) + 1
    queue = empty_queue_state(
        jobs=len(trace),
        queues=queues,
        tenants=tenants,
        types=len(machines.types),
        most_running=2 * most,
    )
    queue.need[:] = np.round(trace.gpus * MILLI).astype(np.int64)
    queue.grain[0] = max(np.gcd.reduce(queue.need), 1)
    queue.types[:] = demands_of(trace, machines).type_mask
    queue.tenant[:], queue.queue_of[:] = tenant, queue_of
    queue.limit_s[:] = time_limits(trace)
    queue.free[:], queue.capacity[:] = capacity, capacity
    queue.prefer[:] = preference(
        ranking.goal, machines, _one_of_each(machines), _speeds(machines, settings)
    )
    entitled = settings.entitlement_of(trace, machines)
    lends = ranking.sharing == Sharing.COMMONS
    queue.quota[:] = np.floor((quota if lends else entitled) * MILLI + 1e-6)
    queue.weight[:] = settings.weights_of(trace, machines)
    return queue


def _speeds(pools: Machines, settings: LabSettings) -> np.ndarray:
    """Return how fast the GPUs of each pool are."""
    return np.array([settings.type_speed.get(kind, 1.0) for kind in pools.types])


def _one_of_each(pools: Machines) -> np.ndarray:
    """Return one node of each pool: those of a pool are alike."""
    return np.unique(pools.type, return_index=True)[1]


def _due(trace: Trace) -> np.ndarray:
    """Return when each job should be done; infinity: whenever."""
    return np.where(np.isnan(trace.deadline_s), np.inf, trace.submit_s + trace.deadline_s)


def similar(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Build the tree of classes and return each class' parent and each job's class.

    All jobs; those of one size; of one tenant; of one user, model and batch size.
    """
    n = len(trace)
    parent, at, size = [-1], np.zeros(n, np.int64), 1
    sizes = np.round(trace.gpus * MILLI).astype(np.int64)
    batch = np.nan_to_num(trace.batch).astype(np.int64)
    for keys in ((sizes,), (trace.tenant,), (trace.user, trace.model, batch)):
        above = code = at
        for key in keys:
            _, key_code = np.unique(key, return_inverse=True)
            code = code * (key_code.max(initial=0) + 1) + key_code
            _, first, code = np.unique(code, return_index=True, return_inverse=True)
        parent.extend(above[first].tolist())
        at = size + code
        size += len(first)
    return np.array(parent, np.int64), at


def time_limits(trace: Trace) -> np.ndarray:
    """Return recorded time limits; where there is none, the next of a partition's usual ones."""
    steps = np.array([1, 4, 12, 24, 48, 96, 168, 336, 720, 2400]) * 3600.0
    usual = steps[np.minimum(np.searchsorted(steps, trace.duration_s), len(steps) - 1)]
    return np.where(np.isnan(trace.time_limit_s), usual, trace.time_limit_s)


def _dependencies(trace: Trace) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return who waits for each job (from, list), and how many each job waits for."""
    n = len(trace)
    needs = np.bincount(trace.after[:, 0], minlength=n).astype(np.int64)
    order = np.argsort(trace.after[:, 1], kind="stable")
    counts = np.bincount(trace.after[:, 1], minlength=n)
    return np.concatenate(([0], np.cumsum(counts))), trace.after[order, 0], needs


def _changes(machines: Machines) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    changes = sorted(machines.changes, key=lambda change: (change.t_s, change.node))
    node = np.array([change.node for change in changes], np.int64)
    sign = np.array([1 if change.up else -1 for change in changes], np.int64)
    return (
        np.array([change.t_s for change in changes], np.float64),
        node,
        sign * machines.gpus[node] * MILLI,
        np.array([change.warning_s for change in changes], np.float64),
    )


def _known(trace: Trace, settings: LabSettings) -> np.ndarray:
    """Return the durations as an oracle with this forecast error would tell them."""
    if settings.forecast_error == 0.0:
        return trace.duration_s.copy()
    dice = np.random.default_rng(settings.seed)
    return trace.duration_s * np.exp(settings.forecast_error * dice.standard_normal(len(trace)))


def _guide(trace: Trace, machines: Machines, placement: Placement, settings: LabSettings) -> Guide:
    """Return what scored placements look at: the shapes of jobs that are to be expected."""
    shapes = trace if placement == Placement.FGD else trace.rows(np.arange(min(len(trace), 1)))
    return guide_of(demands_of(shapes, machines), seed=settings.seed)


def _record(
    state: ReplayState,
    trace: Trace,
    machines: Machines,
    quota: np.ndarray,
    name: str,
) -> Replay:
    spans = state.spans
    k = int(spans.n[0])
    segments = Segments(
        job=spans.job[:k],
        start_s=spans.start_s[:k],
        stop_s=spans.stop_s[:k],
        gpus=trace.gpus[spans.job[:k]],
        node=spans.node[:k],
        nodes=spans.nodes[:k],
        speed=spans.speed[:k],
    )
    return Replay(
        policy=name,
        trace=trace,
        machines=machines,
        quota=quota,
        start_s=state.first_s,
        end_s=state.end_s,
        preemptions=state.stops,
        lost_s=state.lost_s,
        segments=segments,
        cpu_s=0.0,
        decisions=int(state.counters[Counter.PASSES]),
    )
