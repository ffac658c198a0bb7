"""Sends requests to upstreams and hands answers on: whole, or chunk by chunk as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from aiohttp import (
    ClientConnectionResetError,
    ClientConnectorError,
    ClientError,
    ClientOSError,
    ClientResponse,
    ClientResponseError,
    ClientSession,
    ConnectionTimeoutError,
    InvalidURL,
    ServerDisconnectedError,
)

from steward.config.gateway_settings import GatewaySettings
from steward.service.gateway.call import UpstreamCall, UpstreamReply
from steward.service.gateway.call_queue import CallQueue
from steward.service.gateway.kept_connections import ConnectionUse
from steward.service.gateway.openai_errors import GatewayError, error_body
from steward.service.gateway.request_fields import usage_in, usage_of
from steward.service.gateway.stall_watch import StallWatch
from steward.service.gateway.ticket import Ticket
from steward.service.gateway.upstream import Upstream
from steward.service.gateway.upstream_answers import (
    check_answer,
    error_of,
    is_stream,
    passed_headers,
    pause_of,
)

__all__ = ["Relay", "StreamSink"]

R = TypeVar("R")
_NOT_IMPLEMENTED = 501  # embeddings of a server without them: no failure
_SPLIT_BYTES = 256  # of the chunk before: usage may be cut in two
_TRIED_AGAIN = frozenset({429, 502, 503})  # nothing of an answer was made


class StreamSink(Protocol):
    """Where a stream goes: the client's connection."""

    @property
    def began(self) -> bool:
        """Return whether any byte of an answer was written: comments are none."""
        ...

    async def placed(self, ticket: Ticket) -> Upstream:
        """Return the upstream once there is a place; until then tell the client that it waits."""
        ...

    async def write(self, chunk: bytes, ticket: Ticket, response: ClientResponse) -> None:
        """Hand a chunk on, after the response's headers; waits while the client does not read."""
        ...

    def abort(self) -> None:
        """Drop the connection of a client that does not read."""
        ...


class Relay:
    """One for the gateway: HTTP handlers and the batch worker both send through it."""

    def __init__(
        self, queue: CallQueue, session: ClientSession, unkept: ClientSession | None = None
    ) -> None:
        """`unkept` opens a new connection for each request: for those that a kept one failed."""
        self._queue = queue
        self._session = session
        self._unkept = session if unkept is None else unkept

    @property
    def _settings(self) -> GatewaySettings:
        return self._queue.settings

    async def submit(self, call: UpstreamCall) -> UpstreamReply:
        """Wait in the queue, send, return the whole answer. Errors are answers, too."""
        try:
            ticket = self._queue.enter(call)
            return await self.answer(ticket)
        except GatewayError as fault:
            return UpstreamReply(
                status=fault.status, body=error_body(fault), request_id=call.request_id
            )

    async def answer(self, ticket: Ticket) -> UpstreamReply:
        """Return the whole answer to a request that is in the queue, or raise what went wrong."""

        async def once() -> UpstreamReply:
            upstream = await ticket.placed
            return await self._attempt(ticket, upstream, self._whole)

        return await self._repeated(ticket, once, lambda: False)

    async def stream(self, ticket: Ticket, sink: StreamSink) -> UpstreamReply | None:
        """Hand a stream on; return what was answered instead, where it was no stream.

        Raises what went wrong, also after the stream has begun.
        """

        async def once() -> UpstreamReply | None:
            upstream = await sink.placed(ticket)

            async def read(
                ticket: Ticket, response: ClientResponse, watch: StallWatch
            ) -> UpstreamReply | None:
                if not is_stream(response):
                    return await self._whole(ticket, response, watch)
                await self._chunks(ticket, response, watch, sink)
                return None

            return await self._attempt(ticket, upstream, read)

        return await self._repeated(ticket, once, lambda: sink.began)

    async def _repeated(
        self, ticket: Ticket, once: Callable[[], Awaitable[R]], began: Callable[[], bool]
    ) -> R:
        """Try until there is an answer, or another attempt could answer something twice."""
        queue = self._queue
        failed = False
        try:
            while True:
                try:
                    return await once()
                except asyncio.CancelledError:
                    if not _taken_back(ticket):
                        raise
                    queue.give_back(ticket, avoid=False)
                except GatewayError as fault:
                    again = fault.retriable and ticket.attempts <= self._settings.retries
                    if not again or began() or queue.closing:
                        failed = fault.status >= 500
                        raise
                    queue.tallies.retries += 1
                    queue.give_back(ticket, avoid=True)
        finally:
            queue.leave(ticket, failed=failed)

    # -- one attempt ---------------------------------------------------------------------------

    async def _attempt(
        self,
        ticket: Ticket,
        upstream: Upstream,
        read: Callable[[Ticket, ClientResponse, StallWatch], Awaitable[R]],
    ) -> R:
        """Send once and read the answer; whatever goes wrong becomes a `GatewayError`."""
        within_s = self._settings.first_byte_within_s
        watch: StallWatch | None = None
        response: ClientResponse | None = None
        try:
            async with asyncio.timeout(within_s):
                response = await self._post(ticket.call, upstream)
            with StallWatch(within_s, response.close) as watch:
                await self._check_status(upstream, response)
                return await read(ticket, response, watch)
        except ConnectionTimeoutError as fault:  # a TimeoutError, too, but nothing was sent yet
            raise self._broken(upstream, fault) from None
        except TimeoutError:
            raise self._silent(upstream, within_s) from None
        except (ClientError, OSError, ValueError) as fault:
            if watch is not None and watch.stalled:
                raise self._silent(upstream, watch.limit_s) from None
            raise self._broken(upstream, fault) from None
        finally:
            if response is not None:
                response.close()  # goes back to the pool only if all of it was read

    async def _post(self, call: UpstreamCall, upstream: Upstream) -> ClientResponse:
        """Send a request; a kept connection that was closed just then is no failure of anybody.

        Nothing of an answer has come on it, so it is sent once more.
        """
        use = ConnectionUse()
        try:
            return await self._sent(self._session, call, upstream, use)
        except (ServerDisconnectedError, ClientOSError, ClientConnectionResetError) as fault:
            if not use.kept or isinstance(fault, ClientConnectorError):
                raise
        return await self._sent(self._unkept, call, upstream, use)

    async def _sent(
        self, session: ClientSession, call: UpstreamCall, upstream: Upstream, use: ConnectionUse
    ) -> ClientResponse:
        return await session.post(
            upstream.url(call.path),
            data=call.body,
            headers=upstream.headers_for(call),
            ssl=upstream.tls,
            allow_redirects=False,
            trace_request_ctx=use,
        )

    async def _check_status(self, upstream: Upstream, response: ClientResponse) -> None:
        """Raise for what the upstream could not do; what the client did wrong is handed on."""
        status = response.status
        if (status < 500 and status != 429) or status == _NOT_IMPLEMENTED:
            return
        body = await response.content.read(65536)
        if status == 429:
            upstream.paused_until_s = self._queue.now_s() + pause_of(response)
        else:
            self._queue.fail_upstream(upstream, f"it answered {status}")
        raise error_of(response, body, retriable=status in _TRIED_AGAIN)

    async def _whole(
        self, ticket: Ticket, response: ClientResponse, watch: StallWatch
    ) -> UpstreamReply:
        upstream, waited_s = ticket.upstream, ticket.waited_s
        assert upstream is not None  # noqa: S101 - it was sent there
        body = await self._body(response, watch)
        problem = check_answer(response, body)
        if problem:
            self._queue.fail_upstream(upstream, problem)
            raise GatewayError(502, f"the model server failed: {problem}", code="upstream_garbage")
        usage = usage_of(body)
        if response.status < 400:
            self._queue.finish(ticket, usage)
        else:
            self._queue.refused(ticket)
        return UpstreamReply(
            status=response.status,
            body=body,
            content_type=response.headers.get("Content-Type", "application/json"),
            headers=passed_headers(response),
            request_id=ticket.id,
            upstream=upstream.name,
            waited_s=waited_s,
            usage=usage,
        )

    async def _body(self, response: ClientResponse, watch: StallWatch) -> bytes:
        most = self._settings.answer_limit_bytes
        chunks, size = [], 0
        while chunk := await response.content.readany():
            watch.move()
            chunks.append(chunk)
            size += len(chunk)
            if size > most:
                raise GatewayError(
                    502,
                    f"the answer has more than {most} bytes, the limit gateway.answer_limit_bytes",
                    code="answer_too_large",
                )
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def _chunks(
        self, ticket: Ticket, response: ClientResponse, watch: StallWatch, sink: StreamSink
    ) -> None:
        settings, queue = self._settings, self._queue
        usage, before = None, b""
        while chunk := await response.content.readany():
            queue.begin(ticket)
            queue.count(ticket, chunk.count(b"data:"))
            held = before + chunk
            before = held[-_SPLIT_BYTES:]
            if b'_tokens"' in held:
                usage = usage_in(held) or usage
            watch.move(settings.client_stall_s, sink.abort)
            await sink.write(chunk, ticket, response)
            watch.move(settings.stall_s, response.close)
        queue.finish(ticket, usage)

    # -- what goes wrong -----------------------------------------------------------------------

    def _silent(self, upstream: Upstream, limit_s: float) -> GatewayError:
        problem = f"it sent nothing for {limit_s:g} s"
        self._queue.fail_upstream(upstream, problem)
        return GatewayError(504, f"the model server stalled: {problem}", code="upstream_timeout")

    def _broken(self, upstream: Upstream, fault: Exception) -> GatewayError:
        """Return the error for a connection that was refused, reset, or carried no HTTP."""
        if isinstance(fault, ClientConnectorError | ConnectionTimeoutError):
            problem, code = "it does not accept connections", "upstream_unreachable"
        elif isinstance(fault, (ClientResponseError, InvalidURL, ValueError)):
            problem, code = "it does not speak HTTP", "upstream_garbage"
        else:
            problem, code = "it closed the connection", "upstream_disconnected"
        self._queue.fail_upstream(upstream, problem)
        return GatewayError(
            502,
            f"the model server failed: {problem}",
            code=code,
            retriable=code != "upstream_garbage",
        )


def _taken_back(ticket: Ticket) -> bool:
    """Return whether a cancellation was an eviction, and nothing more than that."""
    task = ticket.task
    if not ticket.evicted or task is None:
        return False
    ticket.evicted = False
    return task.uncancel() == 0
