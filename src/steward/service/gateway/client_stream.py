"""A client's connection that a stream is written to, also while the request still waits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aiohttp import ClientResponse, web

from steward.service.gateway.call_queue import CallQueue
from steward.service.gateway.openai_errors import GatewayError, error_event
from steward.service.gateway.ticket import Ticket
from steward.service.gateway.upstream import Upstream
from steward.service.gateway.upstream_answers import passed_headers

__all__ = ["ClientGone", "ClientStream", "wait_headers"]

_EVENTS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}


class ClientGone(Exception):  # noqa: N818 - no error of anybody: nobody is left to be answered
    """The client closed its connection while something was written to it.

    No `ConnectionError`: that would be taken for a failure of the upstream.
    """


class ClientStream:
    """Begins the answer as late as it can: with the first chunk, or with a note that it waits."""

    def __init__(self, request: web.BaseRequest, queue: CallQueue) -> None:
        self._request = request
        self._queue = queue
        self.response: web.StreamResponse | None = None
        self.began = False

    async def placed(self, ticket: Ticket) -> Upstream:
        every_s = self._queue.settings.notice_every_s
        while not ticket.placed.done():
            done, _ = await asyncio.wait({ticket.placed}, timeout=every_s or None)
            if not done:
                await self._notice(ticket)
        return ticket.placed.result()

    async def write(self, chunk: bytes, ticket: Ticket, response: ClientResponse) -> None:
        if not self.began:
            self.began = True
            upstream = ticket.upstream.name if ticket.upstream is not None else ""
            kept = {**passed_headers(response), "Content-Type": response.headers["Content-Type"]}
            await self._open({**kept, "x-steward-upstream": upstream, **wait_headers(ticket)})
        await self._write(chunk)

    def abort(self) -> None:
        transport = self._request.transport
        if transport is not None:
            transport.abort()

    async def end(self, fault: GatewayError | None = None) -> web.StreamResponse:
        """End the answer: with an error as its last event, if there was one."""
        assert self.response is not None  # noqa: S101 - callers look first
        if fault is not None:
            await self._write(error_event(fault))
        return await self._written()

    async def say(self, body: bytes) -> web.StreamResponse:
        """End the answer with what was answered instead of a stream."""
        assert self.response is not None  # noqa: S101 - callers look first
        await self._write(b"data: " + body.replace(b"\n", b" ") + b"\n\n")
        return await self._written()

    async def _notice(self, ticket: Ticket) -> None:
        await self._open({**_EVENTS, **wait_headers(ticket)})
        found = self._queue.expected(ticket)
        place = "" if found is None else f" position={found.position}"
        expected = "" if found is None or found.expected_s is None else found.expected_s
        wait = "" if expected == "" else f" expected_s={expected:.1f}"
        await self._write(f": queued{place}{wait}\n\n".encode())

    async def _write(self, chunk: bytes) -> None:
        assert self.response is not None  # noqa: S101 - it was opened
        try:
            await self.response.write(chunk)
        except ConnectionError as fault:
            raise ClientGone from fault

    async def _written(self) -> web.StreamResponse:
        assert self.response is not None  # noqa: S101 - it was opened
        try:
            await self.response.write_eof()
        except ConnectionError as fault:
            raise ClientGone from fault
        return self.response

    async def _open(self, headers: Mapping[str, str]) -> None:
        if self.response is None:
            response = web.StreamResponse(headers={"Server": "steward", **headers})
            if self._request.version >= (1, 1):
                response.enable_chunked_encoding()
            self.response = response
            try:
                await response.prepare(self._request)
            except ConnectionError as fault:
                raise ClientGone from fault


def wait_headers(ticket: Ticket) -> dict[str, str]:
    """Return what the answer says about the time in the queue."""
    found = ticket.expected
    headers = {
        "x-request-id": ticket.id,
        "x-steward-queue-position": str(found.position if found is not None else 0),
        "x-steward-waited-s": f"{ticket.waited_s:.3f}",
    }
    if found is not None and found.expected_s is not None:
        headers["x-steward-expected-wait-s"] = f"{found.expected_s:.3f}"
    return headers
