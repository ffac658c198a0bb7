"""A receiver that is sent to all the time, and how that goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from steward.clients.web import Endpoint

__all__ = ["ForwardStatus", "ForwardTarget"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardTarget:
    """Where to send to, how, and what: `metrics` are patterns as `gpu.*`; none means all."""

    name: str
    format: str  # one of `ways.SENT_FORMATS`
    endpoint: Endpoint
    metrics: tuple[str, ...] = ()
    lines: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardStatus:
    """How sending to a target goes. What was dropped is counted by why it was.

    `full`: too much waited; `refused`: the receiver will not have it; `late`: not newer than what
    was sent of its series before; `closed`: there was no time left for it at the end.
    """

    name: str
    format: str
    url: str
    sent_samples: int
    dropped_samples: Mapping[str, int]
    sent_lines: int
    dropped_lines: Mapping[str, int]
    waiting_samples: int
    waiting_lines: int
    trouble: str  # why the newest could not be sent; nothing when it could
