"""The plan for a waiting job that is to ask for another number of GPUs."""

from __future__ import annotations

from steward.act.slurm.plan import Plan, done, failed
from steward.clients.slurm import changes
from steward.clients.slurm.asked_gpus import AskedGpus
from steward.clients.slurm.queue_entry import QueueEntry
from steward.model.actions import RightSize

__all__ = ["right_size"]

_OTHERWISE = (
    "asks for GPUs in a way that depends on more (per task, per socket, of several kinds): "
    "its owner submits it anew"
)


def right_size(job: QueueEntry, action: RightSize, asked: AskedGpus | None) -> Plan:
    """Change what a waiting job asks for, in the field in which it asks.

    Whether that was done can be read from the job itself: it needs no note.
    """
    if job.is_many:
        return failed(f"the tasks of array {job.array} wait together: what they ask for stays")
    if not job.waits or asked is None:
        why = _OTHERWISE if job.waits else f"is {job.state.lower()}: what it asks for stays"
        return failed(f"job {job.id} {why}")
    if asked.total == action.count:
        return done(f"job {job.id} asks for {action.count} GPUs")
    wanted = asked.instead(action.count)
    if asked.total != action.before or not wanted:
        among = f"{action.count} do not divide among {asked.nodes} nodes"
        other = f"not {action.before}" if asked.total != action.before else among
        return failed(f"job {job.id} asks for {asked.total} GPUs now: {other}")
    text = f"job {job.id} asks for {action.count} GPUs instead of {action.before}"
    return done(text, changes.ask_for(job.address, wanted))
