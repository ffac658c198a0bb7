"""What can happen to a job: it arrives, starts, stops, ends, or loses its machine. Compiled."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from steward.compiled import njit
from steward.decide.placement import Placement, locality
from steward.decide.scheduling.passes.book import enter, leave
from steward.decide.scheduling.passes.ordered import Ties
from steward.decide.scheduling.ranking import ABOUT_TO_END_GPU_S, Law
from steward.learn.experience import mean_left, rank_of, remember
from steward.sim.lab.rigid.heap import push
from steward.sim.lab.rigid.places import choose_place, give_up_place
from steward.sim.lab.rigid.world import DONE, RUNS, WAITS, Rules, Tally, World

__all__ = ["Rank", "arrive", "bring_up_to_date", "end", "move", "rank", "start", "stop"]


class Rank(IntEnum):
    """What goes first at one instant."""

    END = 0
    CHANGE = 1
    ARRIVAL = 2
    LEVEL = 3
    PROMOTION = 4
    REVIEW = 5


@njit
def bring_up_to_date(world: World, job: int) -> None:
    """Count what a running job has done since it was last looked at."""
    now = world.now_s[0]
    world.attained_s[job] += (now - world.updated_s[job]) * world.rate[job]
    world.updated_s[job] = now


@njit
def _size(world: World, job: int) -> float:
    """Return the GPUs of a job; one without any counts as a thousandth, so that time counts."""
    return float(max(world.book.need[job], 1) / 1000.0)


@njit
def _counted(world: World, rules: Rules, job: int) -> float:
    """Return the attained time, or service, that thresholds are compared with."""
    attained = world.attained_s[job] - world.forgiven_s[job]
    return float(attained * _size(world, job) if rules.by_gpus else attained)


@njit
def rank(world: World, rules: Rules, job: int) -> float:
    """Return a job's rank by the policy's law, at this moment."""
    size = world.book.need[job] / 1000.0 if rules.by_gpus else 1.0
    if rules.law == Law.DURATION:
        return float(world.known_s[job] * size)
    if rules.law == Law.REMAINING:
        known = world.known_s[job]
        left = known + world.lost_s[job] - world.attained_s[job]
        return float(max(left, 1e-3 * known) * size)
    if rules.law == Law.LEVEL:
        return float(world.level[job])
    if rules.law == Law.EXPERIENCE:
        return _experienced(world, rules, job)
    if rules.law == Law.PREDICTED:
        return float(world.predicted_s[job])
    return 0.0


@njit
def _experienced(world: World, rules: Rules, job: int) -> float:
    """Return what similar jobs took for each that ended, weighed by class and long waiting."""
    if urgent_s(world, job) <= world.now_s[0] < world.due_s[job]:
        return ABOUT_TO_END_GPU_S
    known = rank_of(world.experience, world.leaf[job], world.level[job])
    return float(known / world.weight[job] / max(waited_s(world, job) / rules.old_s, 1.0))


@njit
def waited_s(world: World, job: int) -> float:
    """Return how long a job has waited in all."""
    waits = world.now_s[0] - world.queued_s[job] if world.state[job] == WAITS else 0.0
    return float(world.waited_s[job] + waits)


@njit
def urgent_s(world: World, job: int) -> float:
    """Return from when on a job can miss its deadline, by what similar jobs took; infinity: never.

    From then until it is due it ranks like a job that is about to end.
    """
    if world.due_s[job] == np.inf:
        return np.inf
    left = mean_left(world.experience, world.leaf[job], world.level[job])
    return float(world.due_s[job] - left / _size(world, job))


@njit
def _level(world: World, rules: Rules, job: int) -> int:
    level = 0
    counted = _counted(world, rules, job)
    while level < len(rules.thresholds) and counted >= rules.thresholds[level]:
        level += 1
    return level


@njit
def _next_level_s(world: World, rules: Rules, job: int) -> float:
    """Return when a running job reaches its next level; infinity: never."""
    level = world.level[job]
    if rules.law == Law.EXPERIENCE:
        if level + 1 >= len(world.experience.edges):
            return np.inf
        left = world.experience.edges[level + 1] / _size(world, job) - world.attained_s[job]
    elif level >= len(rules.thresholds):
        return np.inf
    else:
        left = rules.thresholds[level] - _counted(world, rules, job)
        if rules.by_gpus:
            left /= _size(world, job)
    return float(world.now_s[0] + left / world.rate[job])


@njit
def watch_level(world: World, rules: Rules, job: int) -> None:
    """Ask to be told when a running job reaches its next level, if it will get that far."""
    if rules.law in (Law.LEVEL, Law.EXPERIENCE):
        at = _next_level_s(world, rules, job)
        done = world.now_s[0] + (world.work_s[job] - world.attained_s[job]) / world.rate[job]
        if at < done:
            push(world.heap, at, Rank.LEVEL, job, world.stamp[job])


@njit
def reach_level(world: World, rules: Rules, job: int) -> None:
    """Move a running job to its next level."""
    bring_up_to_date(world, job)
    if rules.law == Law.EXPERIENCE:
        world.level[job] += 1
    else:
        world.level[job] = max(world.level[job] + 1, _level(world, rules, job))
    world.book.key[job] = rank(world, rules, job) / rules.lead
    if rules.law == Law.LEVEL:
        world.book.late[job] = 1
    watch_level(world, rules, job)


@njit
def wait_in_line(world: World, rules: Rules, job: int, seq: float) -> None:
    """Put a job into its queue."""
    world.state[job] = WAITS
    world.book.key[job] = rank(world, rules, job)
    world.book.seq[job] = seq
    world.tally[Tally.WAITING] += 1
    enter(world.book, job)


@njit
def arrive(world: World, rules: Rules, job: int) -> None:
    """Let a job that depends on nobody any more come into the queue."""
    world.tally[Tally.BACK] += 1
    world.book.late[job] = 1
    world.book.since_s[job] = world.submit_s[job]  # while it waits: since when
    world.queued_s[job] = world.now_s[0]
    if rules.law == Law.PREDICTED:
        world.predicted_s[job] = mean_left(world.experience, world.leaf[job], 0)
        if world.boosted_s[job] > 0.0:
            world.predicted_s[job] *= rules.rolling
            world.predicted_s[job] += (1.0 - rules.rolling) * world.boosted_s[job]
    wait_in_line(world, rules, job, float(world.tally[Tally.BACK]))
    _watch_rank(world, rules, job)


@njit
def _watch_rank(world: World, rules: Rules, job: int) -> None:
    """Ask to be told when a waiting job's rank changes by waiting alone."""
    if rules.law != Law.EXPERIENCE:
        return
    now = world.now_s[0]
    at = now + max(waited_s(world, job), rules.old_s)  # as old again
    for change in (urgent_s(world, job), world.due_s[job]):
        if now < change < at:
            at = change
    if at < np.inf:
        push(world.heap, at, Rank.REVIEW, job, world.stamp[job])


@njit
def rank_again(world: World, rules: Rules, job: int) -> None:
    """Give a waiting job the rank that it has by now."""
    leave(world.book, job)
    world.tally[Tally.WAITING] -= 1
    wait_in_line(world, rules, job, world.book.seq[job])
    _watch_rank(world, rules, job)


@njit
def start(world: World, rules: Rules, job: int) -> None:
    """Let a waiting job that holds its GPUs begin to run, or go on."""
    leave(world.book, job)
    world.tally[Tally.WAITING] -= 1
    world.waited_s[job] = waited_s(world, job)
    world.state[job] = RUNS
    _run(world, rules, job)


@njit
def _run(world: World, rules: Rules, job: int) -> None:
    book, now = world.book, world.now_s[0]
    book.runs[job], book.since_s[job] = 1, now
    world.updated_s[job] = now
    if np.isnan(world.first_s[job]):
        world.first_s[job] = now
    rate = world.type_speed[book.held_type[job]]
    node, nodes = -1, 0
    if world.placement != Placement.COUNT:
        row = world.slot[job]
        node, nodes = world.slot_node[row, 0], world.slot_n[row]
        rate *= world.slowdown[locality(world.nodes, world.slot_node[row], nodes)]
    world.rate[job] = rate
    world.work_s[job] += _boot_s(world, job)
    world.lost_s[job] += _boot_s(world, job)
    book.held[book.tenant[job]] += book.need[job]
    world.stamp[job] += 1
    push(
        world.heap,
        now + (world.work_s[job] - world.attained_s[job]) / rate,
        Rank.END,
        job,
        world.stamp[job],
    )
    if rules.law == Law.EXPERIENCE:
        book.key[job] = rank(world, rules, job) / rules.lead
    watch_level(world, rules, job)
    _open_span(world, job, node, nodes)


@njit
def _open_span(world: World, job: int, node: int, nodes: int) -> None:
    spans = world.spans
    i = spans.n[0]
    spans.job[i], spans.start_s[i], spans.stop_s[i] = job, world.now_s[0], np.nan
    spans.node[i], spans.nodes[i], spans.speed[i] = node, nodes, world.rate[job]
    world.span[job] = i
    spans.n[0] += 1


@njit
def _boot_s(world: World, job: int) -> float:
    """Return the work that a running job's machines took to boot."""
    return float(world.boot_s[world.book.held_type[job]] * world.rate[job])


@njit
def _ran_here(world: World, job: int) -> float:
    """Return the work of a running job since it last started, with booting."""
    return float((world.now_s[0] - world.book.since_s[job]) * world.rate[job])


@njit
def _leave_machine(world: World, job: int) -> None:
    book = world.book
    bring_up_to_date(world, job)
    not_booted = max(_boot_s(world, job) - _ran_here(world, job), 0.0)
    world.work_s[job] -= not_booted
    world.lost_s[job] -= not_booted
    book.runs[job] = 0
    book.held[book.tenant[job]] -= book.need[job]
    world.stamp[job] += 1
    world.spans.stop_s[world.span[job]] = world.now_s[0]


@njit
def stop(world: World, rules: Rules, job: int, place_in_line: int) -> None:
    """Put a running job whose GPUs were given up back into the queue.

    `place_in_line` is how many stopped at this instant come before it.
    """
    _leave_machine(world, job)
    world.stops[job] += 1
    world.work_s[job] += world.price_s[job]
    world.lost_s[job] += world.price_s[job]
    if rules.ties == Ties.RUNNING and world.book.late[job] == 0:
        seq = float(world.tally[Tally.FRONT] + place_in_line)
    else:
        world.tally[Tally.BACK] += 1
        seq = float(world.tally[Tally.BACK])
    world.queued_s[job] = world.now_s[0]
    wait_in_line(world, rules, job, seq)
    _watch_rank(world, rules, job)
    if rules.promote > 0.0 and world.level[job] > 0:
        counted = world.attained_s[job] - world.forgiven_s[job]
        at = world.now_s[0] + counted * rules.promote
        push(world.heap, at, Rank.PROMOTION, job, world.stamp[job])


@njit
def move(world: World, rules: Rules, job: int) -> None:
    """Let a running job whose GPUs were given up go on elsewhere, for the price of a stop."""
    _leave_machine(world, job)
    world.stops[job] += 1
    world.work_s[job] += world.price_s[job]
    world.lost_s[job] += world.price_s[job]
    if choose_place(world, job):
        _run(world, rules, job)
    else:  # its new node has too few CPUs, or too little memory
        world.queued_s[job] = world.now_s[0]
        world.tally[Tally.FRONT] -= 1
        wait_in_line(world, rules, job, float(world.tally[Tally.FRONT]))
        _watch_rank(world, rules, job)


@njit
def promote(world: World, rules: Rules, job: int) -> None:
    """Count a job that has waited long enough as new again."""
    leave(world.book, job)
    world.tally[Tally.WAITING] -= 1
    world.forgiven_s[job] = world.attained_s[job]
    world.level[job] = 0
    world.stamp[job] += 1
    world.tally[Tally.BACK] += 1
    wait_in_line(world, rules, job, float(world.tally[Tally.BACK]))


@njit
def interrupt(world: World, rules: Rules, job: int, warning_s: float) -> None:
    """Stop a job whose machine went away: what it had not saved is lost, unless it was warned."""
    give_up_place(world, job)
    bring_up_to_date(world, job)
    ran = max(_ran_here(world, job) - _boot_s(world, job), 0.0)
    every = world.every_s[job]
    unsaved = ran % every if every > 0.0 else ran
    if warning_s > 0.0 and warning_s >= world.price_s[job]:
        unsaved = 0.0
    world.work_s[job] += unsaved
    world.lost_s[job] += unsaved
    _forget_running(world, job)
    stop(world, rules, job, 0)


@njit
def _forget_running(world: World, job: int) -> None:
    book = world.book
    n = book.running_n[0]
    at = 0
    while book.running[at] != job:
        at += 1
    for i in range(at, n - 1):
        book.running[i] = book.running[i + 1]
    book.running_n[0] = n - 1


@njit
def end(world: World, rules: Rules, job: int) -> None:
    """Finish a job. Those that waited for it alone may come now."""
    give_up_place(world, job)
    _forget_running(world, job)
    _leave_machine(world, job)
    world.state[job] = DONE
    world.end_s[job] = world.now_s[0]
    world.tally[Tally.FINISHED] += 1
    if rules.law in (Law.EXPERIENCE, Law.PREDICTED):
        gpu_s = world.duration_s[job] * _size(world, job)
        remember(world.experience, world.leaf[job], gpu_s)
    for i in range(world.dependents_from[job], world.dependents_from[job + 1]):
        other = world.dependents[i]
        world.needs[other] -= 1
        if world.needs[other] == 0 and other < world.tally[Tally.NEXT]:  # else it is yet to come
            arrive(world, rules, other)
