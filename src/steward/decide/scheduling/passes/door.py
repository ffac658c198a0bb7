"""The live loop's way into the passes: one look at a book, with places for those that start.

The lab's engine does the same around its own clock, and calls the same passes and placements.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.decide.placement.gangs import packed
from steward.decide.placement.state import NodeState, Want, take
from steward.decide.scheduling.passes.backfill import backfill_around_all, backfill_around_first
from steward.decide.scheduling.passes.book import Book, by_reference, leave
from steward.decide.scheduling.passes.choose import choose
from steward.decide.scheduling.passes.ordered import Walk, fits

__all__ = ["Places", "Plan", "Rule", "blank_plan", "look"]

Array = NDArray[Any]

_WHOLE = 1000  # of the book's units make a GPU
_TRIES = 16  # as in the lab: who finds no place keeps nobody else from starting


class Rule(NamedTuple):
    """What of a `Ranking` the passes have to know, and the time."""

    sharing: int
    walk: int
    ties: int
    preempts: int
    depth: int
    lead: float
    now_s: float


class Places(NamedTuple):
    """Nodes, and where running jobs are: job i has rows `first[i]` .. `first[i + 1]`."""

    nodes: NodeState
    first: Array
    node: Array
    gpus: Array
    may_stop: Array  # by job
    to_node: Array  # room for an answer of placement
    to_gpus: Array


class Plan(NamedTuple):
    """The answer: who stops, and who starts where, one row per node that a job starts on."""

    job: Array
    node: Array
    gpus: Array
    after: Array  # how many of `stop` have to be stopped before this one starts
    stop: Array
    n: Array  # rows, and how many in `stop`


def blank_plan(*, rows: int, jobs: int) -> Plan:
    """Make room for an answer."""
    ints = np.int64
    return Plan(
        job=np.zeros(rows, ints),
        node=np.zeros(rows, ints),
        gpus=np.zeros(rows, ints),
        after=np.zeros(rows, ints),
        stop=np.zeros(jobs, ints),
        n=np.zeros(2, ints),
    )


@njit
def look(book: Book, places: Places, rule: Rule, plan: Plan) -> None:
    """Write into `plan` who stops and who starts where. Book and places are used up by it."""
    _look(by_reference(book), places, rule, plan)


@njit
def _look(book: Book, places: Places, rule: Rule, plan: Plan) -> None:
    for _ in range(_TRIES):
        choose(book, rule.sharing, rule.walk, rule.ties, rule.preempts, rule.now_s)
        if _carry_out(book, places, rule, plan) == 0:
            break
    if rule.walk == Walk.EASY:
        backfill_around_first(book, rule.now_s)
        _carry_out(book, places, rule, plan)
    elif rule.walk == Walk.CONSERVATIVE:
        backfill_around_all(book, rule.now_s, rule.depth)
        _carry_out(book, places, rule, plan)


@njit
def _carry_out(book: Book, places: Places, rule: Rule, plan: Plan) -> int:
    """Find places for those to start, and stop whom that takes; return how many found none."""
    stop_n = _only_stoppable(book, places)
    unplaced = 0
    for i in range(book.answer_n[0]):
        job = book.start[i]
        before = stop_n
        used, stop_n = _find_place(book, places, job, stop_n)
        if used == 0:
            book.unplaceable[job] = 1
            unplaced += 1
            if not rule.preempts and rule.walk != Walk.FIT:
                break  # nobody passes it
            continue
        for k in range(before - 1, stop_n - 1, -1):
            _stop(book, book.stop[k], plan)
        _start(book, places, job, rule)
        _write_down(places, job, used, plan)
    return unplaced


@njit
def _only_stoppable(book: Book, places: Places) -> int:
    """Leave those out of the list of stops that must not be stopped; return how many stay."""
    n = 0
    for i in range(book.answer_n[1]):
        if places.may_stop[book.stop[i]]:
            book.stop[n] = book.stop[i]
            n += 1
    return n


@njit
def _want(book: Book, job: int) -> Want:
    return Want(book.need[job] // _WHOLE, 0, 0.0, 0.0, book.types[job])


@njit
def _find_place(book: Book, places: Places, job: int, stop_n: int) -> tuple[int, int]:
    """Hold nodes for a job; free those that are to stop one by one, from the last, if needed.

    Returns how many nodes it uses and how many of those to stop are left. No nodes: it does not
    fit even so, and nothing has changed.
    """
    used, left = 0, stop_n
    while True:
        if fits(book, book.free, job) >= 0:
            used = packed(places.nodes, _want(book, job), places.to_node, places.to_gpus)
        if used > 0 or left == 0:
            break
        left -= 1
        _vacate(book, places, book.stop[left], 1)
    if used > 0:
        take(places.nodes, _want(book, job), places.to_node, places.to_gpus, used)
        return used, left
    for i in range(left, stop_n):
        _vacate(book, places, book.stop[i], -1)
    return 0, stop_n


@njit
def _vacate(book: Book, places: Places, job: int, sign: int) -> None:
    """Free what a running job holds, or (-1) hold it again."""
    book.free[book.held_type[job]] += sign * book.need[job]
    for i in range(places.first[job], places.first[job + 1]):
        places.nodes.free[places.node[i]] += sign * places.gpus[i]


@njit
def _stop(book: Book, job: int, plan: Plan) -> None:
    """Note that a running job stops. It has no part in what else is decided at this look."""
    book.runs[job] = 0
    book.held[book.tenant[job]] -= book.need[job]
    n = 0
    for i in range(book.running_n[0]):
        if book.running[i] != job:
            book.running[n] = book.running[i]
            n += 1
    book.running_n[0] = n
    plan.stop[plan.n[1]] = job
    plan.n[1] += 1


@njit
def _start(book: Book, places: Places, job: int, rule: Rule) -> None:
    """Note that a waiting job runs from now on."""
    leave(book, job)
    kind = places.nodes.type[places.to_node[0]]
    book.free[kind] -= book.need[job]
    book.held[book.tenant[job]] += book.need[job]
    book.runs[job], book.held_type[job], book.since_s[job] = 1, kind, rule.now_s
    book.key[job] /= rule.lead
    book.running[book.running_n[0]] = job
    book.running_n[0] += 1


@njit
def _write_down(places: Places, job: int, used: int, plan: Plan) -> None:
    for i in range(used):
        row = plan.n[0] + i
        plan.job[row], plan.after[row] = job, plan.n[1]
        plan.node[row], plan.gpus[row] = places.to_node[i], places.to_gpus[i]
    plan.n[0] += used
