"""Routes that are not the gateway's own, served by the same server: files and batches."""

from __future__ import annotations

from typing import Protocol

from aiohttp import web

from steward.service.gateway.call import Caller, Submitter
from steward.service.gateway.status import BatchCounts

__all__ = ["ExtraRoutes"]


class ExtraRoutes(Protocol):
    """What `/v1/files` and `/v1/batches` are, to the server that they are part of.

    Access is checked before: `caller` is who asks, and has requests left. Bodies are not read yet.
    """

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Return the paths that this answers, with all below them: `("/v1/files", …)`."""
        ...

    async def handle(self, request: web.BaseRequest, caller: Caller) -> web.StreamResponse:
        """Answer one request."""
        ...

    async def start(self, queue: Submitter) -> None:
        """Begin to send items through the gateway's queue."""
        ...

    async def stop(self) -> None:
        """Stop sending; what is in flight is given back, to be sent again later."""
        ...

    def counts(self) -> BatchCounts:
        """Return how many batches and items there are, for the gateway's status."""
        ...
