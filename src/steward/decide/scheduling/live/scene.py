"""A view as the passes see it: a book of jobs, and what is free where."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.decide.placement.state import NodeState
from steward.decide.scheduling.live.ranks import Ranks
from steward.decide.scheduling.passes.book import Book, empty_book
from steward.decide.scheduling.passes.door import Places
from steward.decide.scheduling.passes.ordered import Ties
from steward.decide.scheduling.ranking import Ranking, Sharing
from steward.model.cluster import Health
from steward.model.forecast import RUN_LEFT_S, USED_GPU_S, About
from steward.model.view import HEALTH_CODES, QUEUED, RUNNING, ClusterView

__all__ = ["Scene", "scene_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MILLI = 1000  # the book counts thousandths of GPUs
_USABLE = (HEALTH_CODES[Health.GOOD], HEALTH_CODES[Health.WORN])
_LONG_S = 10 * 365 * 86_400.0  # a limit for jobs of which nothing is known
_FIRST = -1.0  # the key of running jobs that must go on
_SHIELDED = 0.0  # and of those whose stops would cost too much; a guarantee may still need them


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scene:
    """Rows of the book are jobs by arrival; `jobs` says where each is in the view."""

    jobs: Ints
    book: Book
    places: Places
    place: Ints  # by GPU of the view: its row of `places.nodes`
    free: Bools  # by GPU of the view: can be had now


def scene_of(ranking: Ranking, view: ClusterView, ranks: Ranks) -> Scene:
    """Return who waits and who runs, in their order, and what is free.

    Left out: jobs about which something is decided already, those that ask for no GPU, and those
    that only borrow. GPUs that are broken, unknown, lent or spoken for are not there.
    """
    gpus, jobs = view.gpus, view.jobs
    usable = np.isin(gpus.health, _USABLE) & ~gpus.reserved & (gpus.borrower < 0)
    free = usable & (gpus.owner < 0)
    holds = np.bincount(gpus.owner[gpus.owner >= 0], minlength=len(jobs))
    tied = np.bincount(gpus.owner[(gpus.owner >= 0) & ~usable], minlength=len(jobs)) > 0
    runs = (jobs.state == RUNNING) & (holds > 0)
    waits = (jobs.state == QUEUED) & ~jobs.reserved & (jobs.gpus > 0)
    may_stop = runs & jobs.checkpointable & ~jobs.reserved & ~tied
    rows = _by_arrival(view)
    rows = rows[(runs | waits)[rows]]
    place, places = _places(view, rows, usable=usable, may_stop=may_stop)
    book = _blank(ranking, view, rows, waits=waits[rows])
    _describe_jobs(book, view, rows, holds)
    _rank(book, ranking, view, rows, ranks, may_stop=may_stop[rows])
    _line_up(book, ranking, view, rows, ranks)
    _list_running(book, ranking, rows, ranks, may_stop=may_stop[rows])
    _describe_cluster(book, ranking, view, free)
    return Scene(jobs=rows, book=book, places=places, place=place, free=free)


def _by_arrival(view: ClusterView) -> Ints:
    """Return the rows of jobs by submission; among equals, in the order they were heard of."""
    row_of = {id_: row for row, id_ in enumerate(view.jobs.ids.tolist())}
    heard = np.fromiter((row_of[id_] for id_ in view.details), np.int64, len(row_of))
    order: Ints = heard[np.argsort(view.jobs.submit_s[heard], kind="stable")]
    return order


def _places(
    view: ClusterView, rows: Ints, *, usable: Bools, may_stop: Bools
) -> tuple[Ints, Places]:
    """Return each GPU's place, and all places: one for each model on each node."""
    gpus = view.gpus
    models = max(len(view.models), 1)
    codes, place = np.unique(gpus.node * models + gpus.model, return_inverse=True)
    place, n = place.reshape(-1), len(codes)
    nowhere = np.zeros(n, np.int64)
    nodes = NodeState(
        free=np.bincount(place[usable & (gpus.owner < 0)], minlength=n),
        gpus=np.bincount(place[usable], minlength=n),
        milli=np.zeros((n, 0), np.int64),
        cpus_free=np.full(n, np.inf),  # the engine that carries a start out looks at its hosts
        memory_free=np.full(n, np.inf),
        type=codes % models,
        rack=nowhere,
        switch=nowhere,
        cluster=nowhere,
        up=np.ones(n, np.bool_),
        mig=nowhere,
    )
    row_of = np.full(len(view.jobs) + 1, -1, np.int64)
    row_of[rows] = np.arange(len(rows))
    held = np.flatnonzero(row_of[gpus.owner] >= 0)
    spots, counts = np.unique(row_of[gpus.owner[held]] * n + place[held], return_counts=True)
    return place, Places(
        nodes=nodes,
        first=np.searchsorted(spots, np.arange(len(rows) + 1) * n),
        node=spots % max(n, 1),
        gpus=counts.astype(np.int64),
        may_stop=may_stop[rows],
        to_node=np.zeros(n, np.int64),
        to_gpus=np.zeros(n, np.int64),
    )


def _blank(ranking: Ranking, view: ClusterView, rows: Ints, *, waits: Bools) -> Book:
    """Make a book with room for these jobs, and say whose they are and who waits."""
    tenants = len(view.tenants) + 1  # the last is for jobs of nobody who is known
    tenant = view.jobs.tenant[rows]
    tenant = np.where(tenant < 0, tenants - 1, tenant)
    one_queue = ranking.sharing is Sharing.ONE_QUEUE
    queue = np.zeros(len(rows), np.int64) if one_queue else tenant
    queues = np.bincount(queue[waits], minlength=1 if one_queue else tenants)
    book = empty_book(
        jobs=len(rows),
        queues=queues,
        tenants=tenants,
        types=max(len(view.models), 1),
        most_running=2 * len(rows) + 1,
    )
    book.tenant[:], book.queue[:], book.length[:] = tenant, queue, queues
    book.runs[:] = ~waits
    return book


def _describe_jobs(book: Book, view: ClusterView, rows: Ints, holds: Ints) -> None:
    jobs, gpus = view.jobs, view.gpus
    runs = book.runs == 1
    book.need[:] = np.where(runs, holds[rows], jobs.gpus[rows]) * MILLI
    book.grain[0] = MILLI
    book.types[:] = jobs.model_mask[rows]
    for code in range(len(view.models)):
        most_bytes = gpus.memory_bytes[gpus.model == code].max()
        book.types[jobs.gpu_memory_bytes[rows] > most_bytes] &= ~(1 << code)
    held = np.flatnonzero(gpus.owner >= 0)[::-1]  # so that a job's first GPU is written last
    kind = np.full(len(jobs), -1, np.int64)
    kind[gpus.owner[held]] = gpus.model[held]
    book.held_type[:] = np.where(runs, kind[rows], -1)
    book.since_s[:] = np.where(runs, np.nan_to_num(jobs.start_s[rows]), jobs.submit_s[rows])
    left = view.forecast(About.JOBS, RUN_LEFT_S)
    if left is None:
        book.limit_s[:] = _LONG_S
    else:
        ran_s = np.where(runs, view.t_s - book.since_s, 0.0)
        book.limit_s[:] = np.nan_to_num(left.high[rows], nan=_LONG_S) + ran_s
    book.late[:] = ~runs & (jobs.submit_s[rows] >= view.t_s)


def _rank(
    book: Book, ranking: Ranking, view: ClusterView, rows: Ints, ranks: Ranks, *, may_stop: Bools
) -> None:
    """Write keys: who runs is ahead by the policy's lead, who must go on is before everybody."""
    jobs, runs = view.jobs, book.runs == 1
    cost_s = (jobs.save_s[rows] + jobs.restore_s[rows]) * (jobs.stops[rows] + 1)
    with np.errstate(invalid="ignore"):  # no bound times no time
        shielded = cost_s > ranking.patience * ranks.attained_s[rows]
    ahead = np.where(shielded, _SHIELDED, ranks.key[rows] / ranking.lead)
    book.key[:] = np.where(runs, np.where(may_stop, ahead, _FIRST), ranks.key[rows])
    book.late[ranks.falls[rows]] = 1


def _line_up(book: Book, ranking: Ranking, view: ClusterView, rows: Ints, ranks: Ranks) -> None:
    """Say who goes first among equals, and put those that wait into their queues by rank.

    Who was stopped goes first, the last to be stopped before all, unless running itself brought
    it to its rank, or the policy lets who was there go first. The others go as they came.
    """
    stopped = view.jobs.stops[rows] > 0
    queued_s = view.jobs.queued_s[rows]
    front = stopped & ~ranks.fell[rows] & (ranking.ties is Ties.RUNNING)
    came = np.where(front, -queued_s, queued_s)
    # Of those stopped at once: who had run first, or where the youngest is stopped first, last.
    ran_from = ranks.since_s[rows] * (-1.0 if ranking.sharing is Sharing.BORROW else 1.0)
    ran_from = np.where(stopped & (book.runs == 0), ran_from, 0.0)
    line = np.lexsort((ran_from, stopped, came, ~front))
    book.seq[line] = np.arange(len(rows))
    waits = np.flatnonzero(book.runs == 0)
    order = np.lexsort((book.seq[waits], book.key[waits], book.queue[waits]))
    book.waiting[:] = waits[order]


def _list_running(
    book: Book, ranking: Ranking, rows: Ints, ranks: Ranks, *, may_stop: Bools
) -> None:
    """List who runs, by rank, and then in the order in which they came to it.

    Where tenants borrow, the list is of those that may be stopped.
    """
    runs = np.flatnonzero((book.runs == 1) & (may_stop | (ranking.sharing is not Sharing.BORROW)))
    at = rows[runs]
    order = np.lexsort((book.seq[runs], ranks.falls[at], ranks.since_s[at], book.key[runs]))
    book.running[: len(runs)] = runs[order]
    book.running_n[0] = len(runs)


def _describe_cluster(book: Book, ranking: Ranking, view: ClusterView, free: Bools) -> None:
    """Count by model and by tenant. What nobody is guaranteed is for jobs of no tenant."""
    runs, tenants = book.runs == 1, len(view.tenants)
    types = len(book.free)
    book.free[:] = np.bincount(view.gpus.model[free], minlength=types) * MILLI
    book.capacity[:] = book.free + np.bincount(
        book.held_type[runs], book.need[runs], minlength=types
    ).astype(np.int64)
    book.held[:] = np.bincount(book.tenant[runs], book.need[runs], minlength=tenants + 1)
    book.quota[:-1] = view.tenants.guaranteed * MILLI
    book.quota[-1] = max(int(book.capacity.sum() - book.quota[:-1].sum()), 0)
    book.weight[:-1] = view.tenants.weight
    book.use[:] = (
        book.held / MILLI * ranking.half_life_s / np.log(2.0)
    )  # as if it had always been so
    used = view.forecast(About.TENANTS, USED_GPU_S)
    if used is not None:
        book.use[:-1] = used.mid
