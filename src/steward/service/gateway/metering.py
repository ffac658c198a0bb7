"""Charges the items of batches to the budgets of their tenants."""

from __future__ import annotations

from collections.abc import Callable

from steward.service.gateway.access import Access
from steward.service.gateway.call import Submitter, UpstreamCall, UpstreamReply
from steward.service.gateway.openai_errors import GatewayError, error_body

__all__ = ["MeteredQueue"]

_BYTES_PER_TOKEN = 4  # of prompts whose tokens the upstream does not count


class MeteredQueue:
    """The gateway's queue for batches: a tenant without tokens is answered 429 at once."""

    def __init__(self, queue: Submitter, access: Callable[[], Access]) -> None:
        self._queue = queue
        self._access = access  # a reload may replace it

    async def submit(self, call: UpstreamCall) -> UpstreamReply:
        """Send a request if its tenant has tokens left, and charge what it took."""
        try:
            self._access().admit_tenant(call.tenant)
        except GatewayError as fault:
            return UpstreamReply(
                status=fault.status,
                body=error_body(fault),
                headers=fault.headers,
                request_id=call.request_id,
            )
        reply = await self._queue.submit(call)
        self._access().spend_tenant(call.tenant, _tokens(call, reply))
        return reply


def _tokens(call: UpstreamCall, reply: UpstreamReply) -> int:
    if reply.usage is not None:
        return reply.usage.prompt_tokens + reply.usage.output_tokens
    return len(call.body) // _BYTES_PER_TOKEN if reply.status < 400 else 0
