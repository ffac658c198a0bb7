"""Slurm's words when it refuses, and what they mean: try again, or give up."""

from __future__ import annotations

import re

from steward.clients.slurm.program import Answer
from steward.errors import PermanentError, StewardError, TemporaryError

__all__ = ["reason_in", "refusal"]

# Words of slurm_strerror. `Unexpected message received` is what scontrol makes of a dead or hung
# controller where it reports by job.
_PASSING = (
    "unable to contact slurm controller",
    "socket timed out",
    "no answer within",
    "unexpected message received",
    "zero bytes were transmitted",
    "backup controller in standby",
    "temporarily unable to accept",
    "resource temporarily unavailable",
    "connection refused",
    "connection reset",
    "transport endpoint is not connected",
    "authentication error",
    "rate limit",
    "backoff",
    "in the process of changing state",
    "unspecified error",  # of slurmrestd, when its controller does not answer
)
_HINTS = {
    "access/permission denied": "the account of steward lacks the right: see `steward doctor`",
    "invalid user id": "the account of steward lacks the right: see `steward doctor`",
    "presently disabled": "it was submitted with --no-requeue; its owner may set Requeue=1",
    "only batch jobs": "srun and salloc cannot be put back into the queue",
    "already finished": "it ended before it could be changed",
    "invalid job id": "it ended, and Slurm has forgotten it (MinJobAge)",
    "invalid node state": "somebody has changed the node since it was looked at",
}
_NOISE = re.compile(r"^(\w+: )?(error: |fatal: )|^slurm_\w+ error: ")
_ABOUT = re.compile(r" for job [\d_,\[\]-]+$")


def reason_in(answer: Answer) -> str:
    """Return Slurm's first line, without the names of programs and functions.

    >>> reason_in(Answer(code=1, out="", err="slurm_update error: Invalid user id"))
    'Invalid user id'
    """
    lines = (answer.err or answer.out).splitlines()
    first = _ABOUT.sub("", _NOISE.sub("", lines[0]).strip()) if lines else ""
    return first or f"it failed with {answer.code}"


def refusal(command: str, answer: Answer) -> StewardError:
    """Return the error for an answer that is a failure, in Slurm's words."""
    reason = reason_in(answer)
    low = reason.lower()
    if answer.code is None or any(words in low for words in _PASSING):
        hint = "look at `scontrol ping` and at slurmctld's log on the controller"
        return TemporaryError(reason, where=command, hint=hint)
    hint = next((hint for words, hint in _HINTS.items() if words in low), "")
    return PermanentError(reason, where=command, hint=hint)
