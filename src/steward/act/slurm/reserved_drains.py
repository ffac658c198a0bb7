"""Drains by a reservation: what an operator may do, who may not drain a node.

Slurm starts no new job on a reserved node that does not name the reservation, which is for
steward's own account alone. Slurm refuses one over another's (it has no flag that allows that).
"""

from __future__ import annotations

from collections.abc import Iterable

from steward.act.slurm.plan import Plan, done, failed
from steward.clients.slurm import changes
from steward.clients.slurm.control import NodeEntry
from steward.clients.slurm.reservations import SlurmReservation
from steward.model.decision import Decision

__all__ = ["own_reservation", "reserve", "unreserve"]


def own_reservation(
    node: str, reservations: Iterable[SlurmReservation], user: str
) -> SlurmReservation | None:
    """Return the reservation by which steward keeps jobs from a node, if there is one."""
    name = _name(node)
    found = (each for each in reservations if each.name == name)
    return next((each for each in found if each.users == (user,)), None)


def reserve(
    node: NodeEntry, reservations: list[SlurmReservation], decision: Decision, *, user: str
) -> Plan:
    """Keep new jobs from a node, unless somebody else already does."""
    if own_reservation(node.name, reservations, user) is not None:
        return done(f"node {node.name} is reserved by steward: it takes no new jobs")
    if node.drains or node.state in ("down", "fail", "failing"):
        return failed(f"node {node.name} is {node.state} already: left as it is")
    others = [each.name for each in reservations if node.name in each.nodes]
    if others or _name(node.name) in {each.name for each in reservations}:
        named = ", ".join(others) or _name(node.name)
        return failed(f"node {node.name} is reserved by somebody else ({named}): left as it is")
    command = changes.reserve(_name(node.name), node.name, user)
    text = f"node {node.name} is reserved, instead of drained for {decision.id}: no new jobs"
    return done(text, command)


def unreserve(
    node: NodeEntry, reservations: list[SlurmReservation], decision: Decision, *, user: str
) -> Plan:
    """Let jobs start on a node again, if steward reserved it."""
    del decision
    if own_reservation(node.name, reservations, user) is not None:
        return done(f"node {node.name} takes jobs again", changes.unreserve(_name(node.name)))
    if node.drains:
        return failed(f"node {node.name} was drained ({node.reason}): an administrator's to undo")
    return done(f"node {node.name} is {node.state}: not reserved by steward")


def _name(node: str) -> str:
    return f"steward-drain-{node}"
