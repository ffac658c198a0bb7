"""A request from its arrival to its end, wherever it is in between."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from steward.model.serving.requests import DeadlineClass
from steward.service.gateway.call import UpstreamCall
from steward.service.gateway.upstream import Upstream
from steward.service.gateway.waits import ExpectedWait

__all__ = ["Ticket"]


@dataclass(slots=True, kw_only=True, eq=False)
class Ticket:
    """A request in the queue or in flight."""

    call: UpstreamCall
    id: str
    row: int
    code: int  # of its class
    promised: DeadlineClass
    entered_s: float
    placed: asyncio.Future[Upstream]
    task: asyncio.Task[object] | None  # whose cancellation aborts it upstream, to evict it
    upstream: Upstream | None = None
    begun: bool = False  # its first token was seen, or nobody will see it
    sent_s: float | None = None  # the last time
    first_s: float | None = None
    prompt_tokens: int = 0  # estimated, then as the upstream counted
    tenant: int = -1  # its position
    blocks: tuple[int, ...] = ()  # hashes of its prompt, where there is a choice of upstreams
    generated: int = 0
    token_s: float | None = None  # when its last token came
    sent_steps: float = 0.0  # the upstream's steps when it was sent
    attempts: int = 0
    evictions: int = 0
    evicted: bool = False  # its task is being cancelled for that
    avoid: set[str] = field(default_factory=set)  # upstreams that failed it
    expected: ExpectedWait | None = None  # at first
    expected_at_s: float = 0.0

    @property
    def waited_s(self) -> float:
        """Return how long it was in the queue until it was sent the last time."""
        return 0.0 if self.sent_s is None else self.sent_s - self.entered_s

    @property
    def waiting(self) -> bool:
        """Return whether it is in the queue."""
        return self.upstream is None
