"""A view as the kernels see it: a queue of jobs, and what is free where."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.decide.placement import PLACEMENTS, Placement
from steward.decide.placement.columns import SIZES, Demands, guide_of
from steward.decide.placement.state import HELD_WHOLE, WHOLE, NodeOccupancy
from steward.decide.scheduling.kernels.allocation import Allocation, AllocationCount
from steward.decide.scheduling.kernels.ordered import TieOrder
from steward.decide.scheduling.kernels.overdue_gangs import ITS_TURN, keeps_its_turn
from steward.decide.scheduling.kernels.queue_state import QueueState, empty_queue_state
from steward.decide.scheduling.live.ranks import Ranks
from steward.decide.scheduling.ranking import Ranking, Sharing
from steward.model.cluster import Health
from steward.model.forecast import RUN_LEFT_S, USED_GPU_S, About
from steward.model.job import Job, JobState
from steward.model.view import HEALTH_CODES, QUEUED, RUNNING, ClusterView

__all__ = ["LiveQueueState", "live_queue_state", "usable_gpus"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MILLI = 1000  # the queue counts thousandths of GPUs
_USABLE = (HEALTH_CODES[Health.GOOD], HEALTH_CODES[Health.WORN])
_LONG_S = 10 * 365 * 86_400.0  # a limit for jobs of which nothing is known
_FIRST = -1.0  # the key of running jobs that must go on
_SHIELDED = 0.0  # and of those whose stops would cost too much; a guarantee may still need them


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LiveQueueState:
    """Rows of the queue are jobs by arrival; `jobs` says where each is in the view."""

    jobs: Ints
    queue: QueueState
    alloc: Allocation
    place: Ints  # by GPU of the view: its row of `alloc.nodes`
    free: Bools  # by GPU of the view: can be had now


def live_queue_state(
    ranking: Ranking, view: ClusterView, ranks: Ranks, *, placement: str = "packed"
) -> LiveQueueState:
    """Return who waits and who runs, in their order, and what is free.

    Left out: jobs about which something is decided already, those that ask for no GPU, and those
    that only borrow. GPUs that are broken, unknown, lent or reserved,
    or whose node is draining, are not there.
    """
    gpus, jobs = view.gpus, view.jobs
    usable = usable_gpus(view)
    free = usable & (gpus.owner < 0)
    holds = np.bincount(gpus.owner[gpus.owner >= 0], minlength=len(jobs))
    tied = np.bincount(gpus.owner[(gpus.owner >= 0) & ~usable], minlength=len(jobs)) > 0
    runs = (jobs.state == RUNNING) & (holds > 0)
    waits = (jobs.state == QUEUED) & ~jobs.reserved & (jobs.gpus > 0)
    may_stop = jobs.checkpointable & ~jobs.reserved & ~tied
    rows = _by_arrival(view)
    rows = rows[(runs | waits)[rows]]
    queue = _blank(ranking, view, rows, waits=waits[rows])
    _describe_jobs(queue, view, rows, holds)
    place, alloc = _allocation(
        view, rows, queue.need // MILLI, PLACEMENTS[placement], usable=usable, may_stop=may_stop
    )
    _rank(queue, ranking, view, rows, ranks, may_stop=may_stop[rows])
    _line_up(queue, ranking, view, rows, ranks)
    _list_running(queue, ranking, rows, ranks, may_stop=may_stop[rows])
    _describe_cluster(queue, ranking, view, free)
    return LiveQueueState(jobs=rows, queue=queue, alloc=alloc, place=place, free=free)


def usable_gpus(view: ClusterView) -> Bools:
    """Return which GPUs a job may have, now or when whoever has them is done."""
    gpus = view.gpus
    usable: Bools = np.isin(gpus.health, _USABLE) & ~gpus.reserved & (gpus.borrower < 0)
    return usable & ~view.nodes.draining[gpus.node]


def _by_arrival(view: ClusterView) -> Ints:
    """Return the rows of jobs by submission; among equals, in the order they were heard of."""
    row_of = {id_: row for row, id_ in enumerate(view.jobs.ids.tolist())}
    heard = np.fromiter((row_of[id_] for id_ in view.details), np.int64, len(row_of))
    order: Ints = heard[np.argsort(view.jobs.submit_s[heard], kind="stable")]
    return order


def _allocation(
    view: ClusterView,
    rows: Ints,
    gpus: Ints,
    placement: Placement,
    *,
    usable: Bools,
    may_stop: Bools,
) -> tuple[Ints, Allocation]:
    """Return each GPU's row of nodes (one for each model on each node), and which job is where."""
    ints, jobs = np.int64, len(rows)
    place, nodes = _nodes(view, usable)
    width = max(len(nodes.free), 1)
    row_of = np.full(len(view.jobs) + 1, -1, ints)
    row_of[rows] = np.arange(jobs)
    held = np.flatnonzero(row_of[view.gpus.owner] >= 0)
    parts, counts = np.unique(
        row_of[view.gpus.owner[held]] * width + place[held], return_counts=True
    )
    job, node = parts // width, parts % width
    first = np.searchsorted(job, np.arange(jobs + 1))
    slot_node, slot_gpus = np.zeros((2, jobs + 1, width), ints)
    column = np.arange(len(parts)) - first[job]
    slot_node[job, column], slot_gpus[job, column] = node, counts
    np.add.at(nodes.sizes, (node, np.minimum(gpus[job], SIZES - 1)), 1)
    waits = np.flatnonzero(np.diff(first) == 0)
    slots = np.zeros(jobs + 1, ints)
    slots[0], slots[1 : 1 + len(waits)] = len(waits), waits
    none = np.zeros(jobs)
    demands = Demands(
        gpus=gpus,
        milli=none.astype(ints),
        cpus=none,
        memory=none,
        type_mask=view.jobs.model_mask[rows],
    )
    return place, Allocation(
        placement=int(placement),
        placed=1,
        guide=guide_of(demands),
        nodes=nodes,
        gpus=gpus,
        milli=demands.milli,
        cpus=none,
        memory=none,
        may_stop=may_stop[rows].astype(np.int8),
        slots=slots,
        slot=np.arange(jobs),
        slot_node=slot_node,
        slot_gpus=slot_gpus,
        slot_n=np.append(np.diff(first), 0).astype(ints),
        unplaced=np.zeros(jobs + 1, ints),
        freed=np.zeros(jobs + 1, ints),
        moved=np.zeros(jobs + 1, ints),
        counts=np.zeros(len(AllocationCount), ints),
        moves=0,  # no engine moves a running job yet
        kept_s=np.full(len(nodes.free), np.inf),
        now_s=np.array([view.t_s]),
    )


def _nodes(view: ClusterView, usable: Bools) -> tuple[Ints, NodeOccupancy]:
    """Return each GPU's row, and the rows: one for each model on each node.

    A row is as large as the node is built, whatever of it can be used now: a gang that one node
    could hold is not split because a GPU of each is lent.
    """
    gpus, models = view.gpus, max(len(view.models), 1)
    codes, place = np.unique(gpus.node * models + gpus.model, return_inverse=True)
    place, n = place.reshape(-1), len(codes)
    free, sizes = usable & (gpus.owner < 0), np.bincount(place, minlength=n)
    order = np.argsort(place, kind="stable")
    column = np.arange(len(place)) - np.searchsorted(place[order], place[order])
    milli = np.zeros((n, int(sizes.max(initial=0))), np.int64)
    milli[place[order], column] = np.where(free[order], WHOLE, HELD_WHOLE)
    rack, switch = _switches(view)
    return place, NodeOccupancy(
        free=np.bincount(place[free], minlength=n),
        gpus=sizes,
        milli=milli,
        cpus_free=np.full(n, np.inf),  # the engine that carries a start out looks at its hosts
        memory_free=np.full(n, np.inf),
        type=codes % models,
        rack=rack[codes // models],
        switch=switch[codes // models],
        cluster=np.zeros(n, np.int64),
        up=np.bincount(place[usable], minlength=n) > 0,
        mig=np.zeros(n, np.int64),
        sizes=np.zeros((n, SIZES), np.int64),
    )


def _switches(view: ClusterView) -> tuple[Ints, Ints]:
    """Return by node the switch that it is below, and the one above that."""
    above = {each.id: each.parent or each.id for each in view.cluster.switches}
    names = [node.switch for node in view.cluster.nodes]
    rack = np.unique(np.array(names, object), return_inverse=True)[1].reshape(-1)
    parents = np.array([above.get(name, name) for name in names], object)
    return rack, np.unique(parents, return_inverse=True)[1].reshape(-1)


def _blank(ranking: Ranking, view: ClusterView, rows: Ints, *, waits: Bools) -> QueueState:
    """Make a queue with room for these jobs, and say whose they are and who waits."""
    tenants = len(view.tenants) + 1  # the last is for jobs of nobody who is known
    tenant = view.jobs.tenant[rows]
    tenant = np.where(tenant < 0, tenants - 1, tenant)
    one_queue = ranking.sharing is Sharing.ONE_QUEUE
    queue_of = np.zeros(len(rows), np.int64) if one_queue else tenant
    queues = np.bincount(queue_of[waits], minlength=1 if one_queue else tenants)
    queue = empty_queue_state(
        jobs=len(rows),
        queues=queues,
        tenants=tenants,
        types=max(len(view.models), 1),
        most_running=2 * len(rows) + 1,
    )
    queue.tenant[:], queue.queue_of[:], queue.length[:] = tenant, queue_of, queues
    queue.runs[:] = ~waits
    return queue


def _describe_jobs(queue: QueueState, view: ClusterView, rows: Ints, holds: Ints) -> None:
    jobs, gpus = view.jobs, view.gpus
    runs = queue.runs == 1
    queue.need[:] = np.where(runs, holds[rows], jobs.gpus[rows]) * MILLI
    queue.grain[0] = MILLI
    queue.types[:] = jobs.model_mask[rows]
    for code in range(len(view.models)):
        most_bytes = gpus.memory_bytes[gpus.model == code].max()
        queue.types[jobs.gpu_memory_bytes[rows] > most_bytes] &= ~(1 << code)
    held = np.flatnonzero(gpus.owner >= 0)[::-1]  # so that a job's first GPU is written last
    kind = np.full(len(jobs), -1, np.int64)
    kind[gpus.owner[held]] = gpus.model[held]
    queue.held_type[:] = np.where(runs, kind[rows], -1)
    queue.since_s[:] = np.where(runs, np.nan_to_num(jobs.start_s[rows]), jobs.submit_s[rows])
    queue.queued_s[:] = jobs.queued_s[rows]
    queue.limit_s[:] = _limits(view, rows, np.where(runs, view.t_s - queue.since_s, 0.0))
    queue.stop_cost_s[:] = jobs.save_s[rows] + jobs.restore_s[rows]
    queue.saved_s[:] = _saved_s(view, rows)
    queue.late[:] = ~runs & (jobs.submit_s[rows] >= view.t_s)


def _saved_s(view: ClusterView, rows: Ints) -> Floats:
    """Return when jobs made their newest verified checkpoint; -infinity where nobody knows."""
    found = (view.details[view.job_id(row)].yielding.saved_s for row in rows.tolist())
    return np.array([-np.inf if each is None else each for each in found], np.float64)


def _limits(view: ClusterView, rows: Ints, ran_s: Floats) -> Floats:
    """Return how long jobs may run from their last start: their engine's limit, else a forecast."""
    left = view.forecast(About.JOBS, RUN_LEFT_S)
    forecast = np.full(len(rows), _LONG_S)
    if left is not None:
        forecast = np.nan_to_num(left.high[rows], nan=_LONG_S) + ran_s
    jobs = (view.details[view.job_id(row)] for row in rows.tolist())
    limits = (each.time_limit_s for each in jobs)
    known = np.array([np.nan if limit is None else limit for limit in limits], np.float64)
    return np.where(np.isnan(known), forecast, known)


def _rank(
    queue: QueueState,
    ranking: Ranking,
    view: ClusterView,
    rows: Ints,
    ranks: Ranks,
    *,
    may_stop: Bools,
) -> None:
    """Write keys: who runs is ahead by the policy's lead, who must go on is before everybody."""
    jobs, runs = view.jobs, queue.runs == 1
    cost_s = (jobs.save_s[rows] + jobs.restore_s[rows]) * (jobs.stops[rows] + 1)
    with np.errstate(invalid="ignore"):  # no bound times no time
        shielded = cost_s > ranking.patience * ranks.attained_s[rows]
    gang = queue.need > MILLI
    turn = keeps_its_turn(queue.since_s, queue.queued_s, view.t_s, ranking.gang_wait_s)
    ahead = np.where(shielded, _SHIELDED, ranks.key[rows] / ranking.lead)
    ahead = np.where(gang & turn, ITS_TURN, np.where(may_stop, ahead, _FIRST))
    queue.key[:] = np.where(runs, ahead, ranks.key[rows])
    queue.late[ranks.falls[rows]] = 1


def _line_up(
    queue: QueueState, ranking: Ranking, view: ClusterView, rows: Ints, ranks: Ranks
) -> None:
    """Say who goes first among equals, and put those that wait into their queues by rank.

    Who was stopped goes first, the last to be stopped before all, unless running itself brought
    it to its rank, or the policy lets who was there go first. The others go as they came.
    """
    stopped = view.jobs.stops[rows] > 0
    queued_s = view.jobs.queued_s[rows]
    front = stopped & ~ranks.fell[rows] & (ranking.ties is TieOrder.RUNNING)
    came = np.where(front, -queued_s, queued_s)
    # Jobs stopped at once go by when they had begun to run, as in the lab, also once they run on.
    began_s = np.where(stopped & (queue.runs == 0), view.jobs.began_s[rows], 0.0)
    for at in _restarted_at_once(view, np.flatnonzero(stopped & (queue.runs == 1)), rows):
        began_s[at] = _begun_before_s(view.details[view.job_id(int(rows[at]))])
    together = np.round(np.nan_to_num(began_s), 6)  # a replay's looks at one instant are one time
    line = np.lexsort((together, stopped, came, ~front))
    queue.seq[line] = np.arange(len(rows))
    waits = np.flatnonzero(queue.runs == 0)
    order = np.lexsort((queue.seq[waits], queue.key[waits], queue.queue_of[waits]))
    queue.waiting[:] = waits[order]


def _restarted_at_once(view: ClusterView, runs: Ints, rows: Ints) -> list[int]:
    """Return those of the running jobs that were stopped at one time and began again at one."""
    if not len(runs):
        return []
    times = np.stack([view.jobs.start_s[rows[runs]], view.jobs.queued_s[rows[runs]]])
    _, which, count = np.unique(times, axis=1, return_inverse=True, return_counts=True)
    return [int(each) for each in runs[count[which.reshape(-1)] > 1]]


def _begun_before_s(job: Job) -> float:
    """Return when the run before the last began; 0 where that is not known."""
    begun = [line.t_s for line in job.history if line.state is JobState.RUNNING]
    return begun[-2] if len(begun) > 1 else 0.0


def _list_running(
    queue: QueueState, ranking: Ranking, rows: Ints, ranks: Ranks, *, may_stop: Bools
) -> None:
    """List who runs, by rank, and then in the order in which they came to it.

    Who started with a rank is before who fell to it at that instant. Where tenants borrow, the
    list is of those that may be stopped.
    """
    runs = np.flatnonzero((queue.runs == 1) & (may_stop | (ranking.sharing is not Sharing.BORROW)))
    at = rows[runs]
    since_s, key = ranks.since_s[at], queue.key[runs]
    instant_s = np.round(since_s, 6)  # a replay's looks at one instant are a hair apart
    order = np.lexsort((queue.seq[runs], since_s, ranks.by_running[at], instant_s, key))
    queue.running[: len(runs)] = runs[order]
    queue.running_n[0] = len(runs)


def _describe_cluster(queue: QueueState, ranking: Ranking, view: ClusterView, free: Bools) -> None:
    """Count by model and by tenant. Where quotas bind, the rest is for jobs of no tenant."""
    runs, tenants = queue.runs == 1, len(view.tenants)
    types = len(queue.free)
    queue.free[:] = np.bincount(view.gpus.model[free], minlength=types) * MILLI
    queue.capacity[:] = queue.free + np.bincount(
        queue.held_type[runs], queue.need[runs], minlength=types
    ).astype(np.int64)
    queue.held[:] = np.bincount(queue.tenant[runs], queue.need[runs], minlength=tenants + 1)
    queue.quota[:-1] = view.tenants.guaranteed * MILLI
    rest = max(int(queue.capacity.sum() - queue.quota[:-1].sum()), 0)
    queue.quota[-1] = 0 if ranking.sharing is Sharing.COMMONS else rest
    queue.weight[:-1] = view.tenants.weight
    queue.use[:] = (
        queue.held / MILLI * ranking.half_life_s / np.log(2.0)
    )  # as if it had always been so
    used = view.forecast(About.TENANTS, USED_GPU_S)
    if used is not None:
        queue.use[:-1] = used.mid
