"""Plans for nodes: drain and bring back, never over somebody else's reason."""

from __future__ import annotations

from steward.act.slurm.plan import Plan, begun, done, failed
from steward.clients.slurm import changes
from steward.clients.slurm.control import NodeEntry
from steward.model.decision import Decision

__all__ = ["OURS", "drain", "reboot", "undrain"]

OURS = "steward "  # how the reasons that steward sets begin
LONGEST = 200


def drain(node: NodeEntry, decision: Decision) -> Plan:
    """Start nothing new on a node. The reason carries the decision, then why it was made."""
    if node.drains and node.reason.startswith(f"{OURS}{decision.id}:"):
        return done(f"node {node.name} is {node.state}")
    if node.drains or node.state in ("down", "fail", "failing"):
        return failed(f"node {node.name} is {node.state} already, {_whose(node)}: left as it is")
    why = " ".join(decision.because.split())
    reason = f"{OURS}{decision.id}: {why}"[:LONGEST]
    return done(f"node {node.name} takes no new jobs", changes.drain(node.name, reason))


def undrain(node: NodeEntry, _: Decision) -> Plan:
    """Let jobs start on a node again, if steward drained it."""
    if not node.drains:
        down = node.state in ("down", "fail", "failing")
        text = f"node {node.name} is {node.state}"
        return failed(f"{text}: that is not a drain") if down else done(f"{text}: not drained")
    if not node.reason.startswith(OURS):
        return failed(f"node {node.name} was drained {_whose(node)}: that person brings it back")
    return done(f"node {node.name} takes jobs again", changes.resume_node(node.name))


def reboot(node: NodeEntry, decision: Decision) -> Plan:
    """Restart a node that steward drained. Slurm writes the reason over that of the drain."""
    if node.reboots:
        return begun(f"node {node.name} is being restarted")
    if node.reason.startswith(f"{OURS}{decision.id}:"):
        return done(f"node {node.name} was restarted, and is {node.state}")
    if not node.drains or not node.reason.startswith(OURS):
        return failed(f"node {node.name} is {node.state}, {_whose(node)}: not drained by steward")
    if node.state != "drained":
        return failed(f"node {node.name} is {node.state}: jobs run there still")
    why = " ".join(decision.because.split())
    reason = f"{OURS}{decision.id}: restarted; {why}"[:LONGEST]
    return begun(f"node {node.name} is to be restarted", changes.reboot(node.name, reason))


def _whose(node: NodeEntry) -> str:
    who = f"by {node.set_by}" if node.set_by not in ("", "Unknown") else "by Slurm"
    return f"{who} ({node.reason})" if node.reason else who
