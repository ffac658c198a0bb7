"""The state of a replay as arrays: the policies' queue, and what only the engine may know."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit, reference_to
from steward.decide.scheduling.kernels.allocation import Allocation, allocation_by_reference
from steward.decide.scheduling.kernels.driver import ChangeLog
from steward.decide.scheduling.kernels.queue_state import QueueState
from steward.decide.scheduling.kernels.queue_state import by_reference as queue_by_reference
from steward.learn.experience import Experience
from steward.sim.lab.rigid.heap import Heap

__all__ = [
    "COMING",
    "DONE",
    "RUNS",
    "WAITS",
    "Counter",
    "PolicyParameters",
    "ReplayState",
    "RunSpans",
    "by_reference",
    "empty_spans",
    "grown",
]

Array = NDArray[Any]

COMING, WAITS, RUNS, DONE = 0, 1, 2, 3  # codes of ReplayState.state


class Counter(IntEnum):
    """What the counters of a state count."""

    NEXT = 0  # arrival
    CHANGE = 1  # of machines, the next
    WAITING = 2
    PASSES = 3
    FINISHED = 4
    FRONT = 5  # the place in line of who goes first
    BACK = 6  # and last


class PolicyParameters(NamedTuple):
    """A policy as numbers for compiled code; `decide/scheduling/ranking.py` says what each is."""

    law: int
    walk: int
    ties: int
    preempts: int
    by_gpus: int
    every_level: int  # 1: every new level of a running job is a reason to call the policy
    by_loss: int  # running jobs of equal rank go by what a stop would cost them
    sharing: int  # how tenants share; 0: one queue for all
    thresholds: Array  # of attained time or service, where the rank changes
    promote: float  # wait so many times the time run: back to the first level; 0: never
    patience: float  # a stop may cost at most this share of what the job has run
    depth: int  # how far conservative backfill looks
    interval_s: float  # and how often
    half_life_s: float  # of a tenant's remembered use
    old_s: float  # who has waited longer counts for more, in proportion
    rolling: float  # part of similar jobs in a prediction, beside boosted trees
    lead: float  # who runs counts as so many times nearer to its end
    gang_wait_s: float  # a gang that has waited so long is overdue; infinity: none ever is


class RunSpans(NamedTuple):
    """Who ran when, as it is written down."""

    job: Array
    start_s: Array
    stop_s: Array
    node: Array
    nodes: Array
    speed: Array
    n: Array


class ReplayState(NamedTuple):
    """Everything that changes during a replay. `advance` goes on from any such state."""

    queue: QueueState
    alloc: Allocation
    log: ChangeLog
    heap: Heap
    spans: RunSpans
    experience: Experience
    # the trace
    submit_s: Array
    duration_s: Array
    known_s: Array  # the duration, as far as those who know it know it
    predicted_s: Array  # the mean GPU time of similar jobs, when it arrived
    boosted_s: Array  # the GPU time that boosted trees expect; 0: they know too little
    price_s: Array  # of one stop
    weight: Array  # by its priority class: ranks are divided by it
    due_s: Array  # its deadline; infinity: none
    every_s: Array  # how often it saves by itself; 0: only when asked
    leaf: Array  # the most similar class of past jobs
    dependents: Array
    dependents_from: Array
    needs: Array  # how many jobs it still waits for
    # each job
    job_state: Array
    work_s: Array  # what it has to run in all, with what was lost
    attained_s: Array
    forgiven_s: Array  # attained time that no longer counts against it
    before_s: Array  # attained before its present run
    rate: Array
    stamp: Array
    review_s: Array  # when its rank changes next by time alone, as far as is known now
    level: Array
    stops: Array
    lost_s: Array
    waited_s: Array  # before it last came into the queue
    first_s: Array
    end_s: Array
    span: Array  # the open one
    # machines
    type_speed: Array
    boot_s: Array  # by type: before a job can run there
    slowdown: Array  # by locality
    change_s: Array
    change_node: Array
    change_type: Array
    change_milli: Array
    change_warning_s: Array
    # the clock and counters
    now_s: Array  # now, last backfill, last decay, next backfill
    counters: Array  # see `Counter`


LogRef, LogRefType = reference_to("LogRef", ChangeLog._fields, module=__name__)
HeapRef, HeapRefType = reference_to("HeapRef", Heap._fields, module=__name__)
SpansRef, SpansRefType = reference_to("SpansRef", RunSpans._fields, module=__name__)
PastRef, PastRefType = reference_to("PastRef", Experience._fields, module=__name__)
ReplayStateRef, ReplayStateRefType = reference_to(
    "ReplayStateRef", ReplayState._fields, module=__name__
)


@njit
def by_reference(state: ReplayState) -> Any:  # noqa: ANN401 - has the fields of a ReplayState
    """Return the same state as a record that compiled functions pass on by reference."""
    heap, spans, past, log = state.heap, state.spans, state.experience, state.log
    return ReplayStateRef(
        queue_by_reference(state.queue),
        allocation_by_reference(state.alloc),
        LogRef(log.kind, log.job, log.old_type, log.n),
        HeapRef(
            heap.time_s,
            heap.rank,
            heap.sequence,
            heap.subject,
            heap.stamp,
            heap.size,
        ),
        SpansRef(
            spans.job,
            spans.start_s,
            spans.stop_s,
            spans.node,
            spans.nodes,
            spans.speed,
            spans.n,
        ),
        PastRef(
            past.edges,
            past.parent,
            past.seen,
            past.total,
            past.rank,
            past.made_at,
            past.finished,
            past.believed,
            past.believed_total,
            past.memory,
            past.strength,
        ),
        state.submit_s,
        state.duration_s,
        state.known_s,
        state.predicted_s,
        state.boosted_s,
        state.price_s,
        state.weight,
        state.due_s,
        state.every_s,
        state.leaf,
        state.dependents,
        state.dependents_from,
        state.needs,
        state.job_state,
        state.work_s,
        state.attained_s,
        state.forgiven_s,
        state.before_s,
        state.rate,
        state.stamp,
        state.review_s,
        state.level,
        state.stops,
        state.lost_s,
        state.waited_s,
        state.first_s,
        state.end_s,
        state.span,
        state.type_speed,
        state.boot_s,
        state.slowdown,
        state.change_s,
        state.change_node,
        state.change_type,
        state.change_milli,
        state.change_warning_s,
        state.now_s,
        state.counters,
    )


def empty_spans(room: int) -> RunSpans:
    """Make room for so many spans."""
    ints = np.int64
    return RunSpans(
        job=np.zeros(room, ints),
        start_s=np.zeros(room),
        stop_s=np.zeros(room),
        node=np.zeros(room, ints),
        nodes=np.zeros(room, ints),
        speed=np.zeros(room),
        n=np.zeros(1, ints),
    )


def grown(arrays: Any, room: int) -> Any:  # noqa: ANN401 - a Heap or RunSpans comes back as one
    """Return the same columns with more room; those of fixed length stay."""
    longest = max(len(column) for column in arrays)
    return type(arrays)(
        *(
            np.concatenate((column, np.zeros(room - longest, column.dtype)))
            if len(column) == longest
            else column
            for column in arrays
        )
    )
