"""Which nodes are reserved, or will be before a job that starts there now has ended.

Slurm starts no job on a node that would still run when a reservation of others begins. Who decides
as if the node were free stops others in vain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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
    nodes: Collection[str],
    jobs: Iterable[SlurmJob],
    t_s: float,
) -> ReservedNodes:
    """Return what reservations keep from being decided at `t_s`.

    A node is closed while it is reserved, and before that as soon as the longest of the jobs that
    wait would run into the reservation. A job that would do so on every node waits for its end.
    """
    next_on = _next_by_node(reservations, t_s)
    soon = {name: each for name, each in next_on.items() if each.start_s - t_s <= AHEAD_S}
    if not soon:
        return ReservedNodes()
    free_s = {name: soon[name].start_s - t_s if name in soon else float("inf") for name in nodes}
    longest_free_s = max(free_s.values(), default=0.0)
    waiting = {job.id: _limit_s(job) for job in jobs if not WAITING.isdisjoint(job.states)}
    stuck = frozenset(id_ for id_, limit_s in waiting.items() if limit_s > longest_free_s)
    longest_s = max((s for id_, s in waiting.items() if id_ not in stuck), default=0.0)
    closed = {name: each for name, each in soon.items() if free_s.get(name, 0.0) <= longest_s}
    return ReservedNodes(nodes=closed, jobs=stuck)


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
