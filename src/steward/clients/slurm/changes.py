"""The commands that change something in Slurm, with their exact arguments: built here alone."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

__all__ = [
    "Command",
    "ask_for",
    "cancel",
    "drain",
    "exclude",
    "hold",
    "notify",
    "reboot",
    "release",
    "requeue",
    "reserve",
    "resume_node",
    "shown",
    "signal_batch",
    "submit",
    "try_submit",
    "unreserve",
    "update_job",
]

Command = tuple[str, ...]


def shown(commands: Iterable[Command]) -> str:
    """Return commands as a person would type them.

    >>> shown([drain("n1", "steward d-1: ECC")])
    "scontrol update NodeName=n1 State=DRAIN 'Reason=steward d-1: ECC'"
    """
    return "; ".join(shlex.join(each) for each in commands)


def release(job: str) -> Command:
    """Let a held job be scheduled."""
    return ("scontrol", "release", job)


def hold(job: str) -> Command:
    """Keep a job from starting; its owner can release it, also if an operator held it."""
    return ("scontrol", "uhold", job)


def update_job(
    job: str,
    *,
    comment: str | None = None,
    nice: int | None = None,
    start_in_s: int | None = None,
    nodes: Iterable[str] = (),
    time_limit: str = "",
) -> Command:
    """Change several things of a job in one request: all of it happens, or nothing.

    `start_in_s` ends the two minutes that a requeued job is kept waiting. `time_limit` is the
    whole time that it may run, or with a `+` so much more.
    """
    kept = ",".join(nodes)
    parts = [f"JobId={job}"]
    parts += [f"NodeList={kept}"] if kept else []
    parts += [f"TimeLimit={time_limit}"] if time_limit else []
    parts += [] if nice is None else [f"Nice={nice}"]
    parts += (
        []
        if start_in_s is None
        else [f"StartTime=now+{start_in_s}" if start_in_s else "StartTime=now"]
    )
    parts += [] if comment is None else [f"Comment={comment}"]
    return ("scontrol", "update", *parts)


def ask_for(job: str, resources: str, *, start_in_s: int | None = None) -> Command:
    """Let a waiting job ask for something else, as `TresPerNode=gres:gpu:2`."""
    when = () if start_in_s is None else (f"StartTime=now+{start_in_s}",)
    return ("scontrol", "update", f"JobId={job}", resources, *when)


def exclude(job: str, nodes: Iterable[str], *, start_in_s: int) -> Command:
    """Let a waiting job start on other nodes than these: they replace those that it excluded."""
    where = f"ExcNodeList={','.join(nodes)}"
    return ("scontrol", "update", f"JobId={job}", where, f"StartTime=now+{start_in_s}")


def signal_batch(job: str, signal: str) -> Command:
    """Send a signal to a job's batch shell: without `--batch`, only its steps get one."""
    return ("scancel", "--batch", f"--signal={signal}", job)


def requeue(job: str, *, hold: bool) -> Command:
    """Put a job back into the queue. Without `Incomplete`, one that has just ended runs again."""
    return ("scontrol", "requeuehold" if hold else "requeue", "Incomplete", job)


def cancel(job: str) -> Command:
    """End a job."""
    return ("scancel", job)


def notify(job: str, text: str) -> Command:
    """Write a line to the standard error of a running job."""
    return ("scontrol", "notify", job, text)


def drain(node: str, reason: str) -> Command:
    """Start nothing new on a node."""
    return ("scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}")


def resume_node(node: str) -> Command:
    """Let jobs start on a node again."""
    return ("scontrol", "update", f"NodeName={node}", "State=RESUME")


def reboot(node: str, reason: str) -> Command:
    """Restart a node by Slurm's RebootProgram. A drained one stays drained."""
    return ("scontrol", "reboot", f"reason={reason}", node)


def reserve(name: str, node: str, user: str) -> Command:
    """Keep new jobs of others from a node, until the reservation is deleted; what runs goes on."""
    what = (f"ReservationName={name}", f"Nodes={node}", f"Users={user}")
    when = ("StartTime=now", "Duration=UNLIMITED", "Flags=IGNORE_JOBS")
    return ("scontrol", "create", "reservation", *what, *when)


def unreserve(name: str) -> Command:
    """Delete a reservation."""
    return ("scontrol", "delete", f"ReservationName={name}")


def submit(options: Iterable[str], script: str, arguments: Iterable[str] = ()) -> Command:
    """Submit a script, held."""
    return ("sbatch", "--parsable", "--hold", *options, script, *arguments)


def try_submit(options: Iterable[str], script: str, arguments: Iterable[str] = ()) -> Command:
    """Ask whether a script could run: with `--hold`, Slurm does not look at what it asks for."""
    return ("sbatch", "--test-only", *options, script, *arguments)
