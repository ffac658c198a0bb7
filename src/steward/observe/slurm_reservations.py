"""Which nodes are reserved, or will be before a job that starts there now has ended.

Slurm starts no job on a node that would still run when a reservation of others begins. Who decides
as if the node were free stops others in vain.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from steward.clients.slurm import SlurmJob
from steward.clients.slurm.jobs import WAITING
from steward.clients.slurm.reservations import SlurmReservation
from steward.model.event import Event

__all__ = ["ReservedNodes", "reserved_nodes"]

AHEAD_S = 86_400.0  # a maintenance of next month does not keep a job without a limit from a node


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedNodes:
    """Nodes on which nothing is to be started now, and jobs that can start on no node."""

    nodes: Mapping[str, SlurmReservation] = field(default_factory=dict)
    jobs: frozenset[str] = frozenset()

    def news(self, before: ReservedNodes, t_s: float, *, source: str) -> list[Event]:
        """Return which nodes were closed or opened since an earlier look."""
        closed = [name for name in sorted(self.nodes) if name not in before.nodes]
        opened = [name for name in sorted(before.nodes) if name not in self.nodes]
        said = [("node.reserved", name, _text(self.nodes[name], t_s)) for name in closed]
        said += [("node.unreserved", name, "it may be started on again") for name in opened]
        return [
            Event(t_s=t_s, kind=kind, subject=name, text=text, source=source)
            for kind, name, text in said
        ]


def reserved_nodes(
    reservations: Sequence[SlurmReservation],
    gpus: Mapping[str, int],
    jobs: Iterable[SlurmJob],
    t_s: float,
) -> ReservedNodes:
    """Return what reservations keep from being decided at `t_s`. `gpus` has them by node.

    A node is closed while it is reserved, and before that as soon as everybody who waits has a job
    that would run into the reservation. A job for which too few GPUs are left before one waits for
    its end.
    """
    next_on = _next_by_node(reservations, t_s)
    soon = {name: each for name, each in next_on.items() if each.start_s - t_s <= AHEAD_S}
    if not soon:
        return ReservedNodes()
    free_s = {name: soon[name].start_s - t_s if name in soon else float("inf") for name in gpus}
    waiting = [job for job in jobs if not WAITING.isdisjoint(job.states)]
    stuck = _without_room(waiting, free_s, gpus)
    closing_s = _closing_s(job for job in waiting if job.id not in stuck)
    closed = {name: each for name, each in soon.items() if free_s.get(name, 0.0) <= closing_s}
    return ReservedNodes(nodes=closed, jobs=stuck)


def _without_room(
    jobs: Iterable[SlurmJob], free_s: Mapping[str, float], gpus: Mapping[str, int]
) -> frozenset[str]:
    """Return the jobs that need more GPUs than the nodes have on which they would end in time.

    One that asks for more than there are, or for parts of GPUs, is not kept waiting by that.
    """
    times = sorted(free_s.items(), key=lambda item: item[1])
    until = [s for _, s in times]
    left = [*accumulate((gpus[name] for name, _ in reversed(times)), initial=0)][::-1]
    found = ((job, bisect_left(until, _limit_s(job))) for job in jobs)
    return frozenset(
        job.id for job, at in found if at == len(until) or left[at] < min(job.gpus, left[0])
    )


def _closing_s(jobs: Iterable[SlurmJob]) -> float:
    """Return how long a node has to be free that is of use to anybody who waits.

    Slurm itself closes no node: it only starts no job there that is too long. So the longest job of
    each user counts, and of these the shortest; and only jobs that could start now. Else a single
    held job without a time limit would close nodes to all others for a day.
    """
    longest_s: dict[str, float] = {}
    for job in jobs:
        if job.could_start:
            longest_s[job.user] = max(longest_s.get(job.user, 0.0), _limit_s(job))
    return min(longest_s.values(), default=0.0)


def _next_by_node(
    reservations: Iterable[SlurmReservation], t_s: float
) -> dict[str, SlurmReservation]:
    found: dict[str, SlurmReservation] = {}
    for each in sorted(reservations, key=lambda each: each.start_s, reverse=True):
        if each.end_s > t_s:
            found.update(dict.fromkeys(each.nodes, each))
    return found


def _limit_s(job: SlurmJob) -> float:
    return float("inf") if job.limit_s is None else job.limit_s


def _text(reservation: SlurmReservation, t_s: float) -> str:
    what = "maintenance" if reservation.maintenance else "others"
    wait_s = reservation.start_s - t_s
    when = "now" if wait_s <= 0 else f"in {wait_s / 60:.0f} min"
    return f"reserved for {what} {when} ({reservation.name}): nothing is started there"
