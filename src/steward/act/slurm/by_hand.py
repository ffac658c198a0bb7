"""From a plan to what a person would type: without steward's notes, and with what comes later."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from math import ceil

from steward.act.slurm import node_plans
from steward.act.slurm.plan import Plan
from steward.clients.slurm import changes
from steward.clients.slurm.changes import Command
from steward.clients.slurm.program import SlurmMissingError
from steward.errors import PermanentError
from steward.model.actions import CallBack, Lend, Migrate, Preempt, Resize, Tell
from steward.model.by_hand import ByHand
from steward.model.decision import Decision

__all__ = ["typed_by_hand"]

_COMMENT = "Comment="  # steward's note, by which it would take a change for its own
_WHICH = ("JobId=", "NodeName=", _COMMENT)


def typed_by_hand(decision: Decision, plan: Callable[[], Plan]) -> ByHand:
    """Return what a person would type for a decision. `plan` looks at what is there now."""
    if isinstance(decision.action, Tell):
        return ByHand(text=f"tell {decision.action.to}: {decision.action.text}")
    try:
        planned = plan()
    except SlurmMissingError:
        raise  # that is no answer about the decision
    except PermanentError as fault:
        return ByHand(text=str(fault), possible=False)
    if planned.result == "failed":
        return ByHand(text=planned.text, possible=False)
    if isinstance(decision.action, Lend | CallBack) and planned.commands:
        # Its step is followed by steward, which ends it when the GPUs are needed.
        approve = f"steward decisions approve {decision.id}"
        return ByHand(text=planned.text, commands=(approve,))
    return ByHand(text=planned.text, commands=tuple(_typed(decision, planned)))


def _typed(decision: Decision, plan: Plan) -> Iterator[str]:
    for command in plan.commands:
        bare = tuple(_plain(each, decision) for each in command if not each.startswith(_COMMENT))
        if len(bare) == len(command) or any(not each.startswith(_WHICH) for each in command[2:]):
            yield shlex.join(bare)
    if isinstance(decision.action, Preempt | Migrate | Resize):
        yield from _requeue(plan)
        yield from (shlex.join(each) for each in plan.later)


def _plain(part: str, decision: Decision) -> str:
    """Return a part of a command without the mark by which steward knows its own drain again."""
    return part.replace(f"Reason={node_plans.OURS}{decision.id}: ", "Reason=", 1)


def _requeue(plan: Plan) -> Iterator[str]:
    """Yield what follows when a job that was asked has had its time to save."""
    job = plan.noted
    did = job.mark.did if job is not None else None
    if job is None or did is None or not plan.commands or _requeues(plan.commands):
        return
    yield f"sleep {ceil(did.save_s or 0.0)}"
    yield shlex.join(changes.requeue(job.address, hold=did.held))


def _requeues(commands: tuple[Command, ...]) -> bool:
    return any(each[:1] == ("scontrol",) and "requeue" in each[1] for each in commands)
