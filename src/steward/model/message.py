"""A message to people about what happened, and the wish not to get some of them."""

from __future__ import annotations

from dataclasses import dataclass

from steward.model.finding import Severity
from steward.model.identity import JobId, TenantId

__all__ = ["MESSAGE_KINDS", "Message", "Mute"]

# Kinds of messages, each with what it is about.
MESSAGE_KINDS = {
    "finding": "something was noticed: waste, a fault",
    "approval": "a decision waits for a person",
    "decision": "a decision about somebody's job was carried out, or failed",
    "advice": "what would help the owner of a job",
    "job": "a job failed",
    "alert": "another system's alert: Alertmanager",
    "steward": "steward itself could not do something",
    "test": "a test of the receiver",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One thing that people should know. The same `key` is the same thing, told again."""

    key: str
    t_s: float
    kind: str
    severity: Severity
    title: str
    text: str = ""
    advice: str = ""  # what to do about it
    subject: str = ""  # the entity
    job: JobId | None = None
    tenant: TenantId | None = None
    user: str = ""  # the owner of the job, or whom advice is for
    source: str = ""  # id of the journal entry behind it
    path: str = ""  # of the dashboard page that shows it
    resolved: bool = False  # what an earlier message of this key told is over


@dataclass(frozen=True, slots=True, kw_only=True)
class Mute:
    """A person's wish not to get messages. Empty fields match every message."""

    id: str
    user: str  # whose messages; empty: everybody's
    until_s: float
    job: str = ""
    kind: str = ""
    made_by: str = ""

    def covers(self, message: Message, t_s: float) -> bool:
        """Return whether this message is not to be sent at `t_s`."""
        return (
            t_s < self.until_s
            and self.user in ("", message.user)
            and self.job in ("", message.job or "")
            and self.kind in ("", message.kind)
        )
