"""Connections that misbehave before there is a request, over real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvicorn
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from patience import LONG_S
from steward.service.http_protocol import ConnectionLimits, protocol_with

ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
UNFINISHED = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the account at the other end."""
    peer = scope["state"].get("peer")
    await JSONResponse({"uid": peer.uid if peer else None})(scope, receive, send)


@asynccontextmanager
async def serving(listener: socket.socket, limits: ConnectionLimits) -> AsyncIterator[None]:
    """Serve on a socket, with these limits."""
    config = uvicorn.Config(
        application, http=protocol_with(limits), lifespan="off", log_level="critical"
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup([listener])
    try:
        yield
    finally:
        await server.shutdown([listener])


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def with_server(
    scenario: Callable[[Callable[[], Awaitable[Streams]]], Awaitable[None]],
    limits: ConnectionLimits,
) -> None:
    """Run a scenario that opens connections."""

    async def run() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        async with serving(listener, limits), asyncio.timeout(LONG_S):
            await scenario(lambda: asyncio.open_connection("127.0.0.1", port))

    asyncio.run(run())


async def answer(streams: Streams, sent: bytes) -> bytes:
    """Send and return all that comes back until the connection is closed."""
    reader, writer = streams
    try:
        writer.write(sent)
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize("end", [b"\r\n\r\n", b""])
def test_headers_that_are_too_large_are_refused_whether_or_not_they_end(end: bytes) -> None:
    large, huge = (UNFINISHED + b"X-Large: " + b"x" * size + end for size in (40_000, 400_000))

    async def scenario(connect: Callable[[], Awaitable[Streams]]) -> None:
        assert (await answer(await connect(), large)).startswith(b"HTTP/1.1 431 ")
        assert b"200" not in await answer(await connect(), huge)  # may be reset while it sends
        assert (await answer(await connect(), ASK)).startswith(b"HTTP/1.1 200 ")

    with_server(scenario, ConnectionLimits())


def test_headers_that_do_not_end_are_cut_off() -> None:
    async def scenario(connect: Callable[[], Awaitable[Streams]]) -> None:
        cut = b""
        while not cut:  # a client that is late itself may be reset while it sends
            cut = await answer(await connect(), UNFINISHED)
        assert cut.startswith(b"HTTP/1.1 408 ")
        assert (await answer(await connect(), b"")).startswith(b"HTTP/1.1 408 ")

    with_server(scenario, ConnectionLimits(headers_within_s=0.05))


def test_slow_connections_crowd_out_themselves_and_nobody_else() -> None:
    limits = ConnectionLimits(most_pending=10, headers_within_s=10 * LONG_S)

    async def scenario(connect: Callable[[], Awaitable[Streams]]) -> None:
        slow = [await connect() for _ in range(30)]
        for _, writer in slow:
            writer.write(UNFINISHED)

        asked = await answer(await connect(), ASK)
        first = await answer(slow[0], b"")

        assert asked.startswith(b"HTTP/1.1 200 ")
        assert first == b""
        assert len(limits.pending) <= 10
        for _, writer in slow:
            writer.close()

    with_server(scenario, limits)


def test_no_more_connections_are_open_than_allowed() -> None:
    async def scenario(connect: Callable[[], Awaitable[Streams]]) -> None:
        open_ = [await connect() for _ in range(2)]

        refused = await answer(await connect(), b"")
        for _, writer in open_:
            writer.close()

        assert refused.startswith(b"HTTP/1.1 503 ")

    with_server(scenario, ConnectionLimits(most=2))


def test_on_a_unix_socket_requests_carry_the_credentials_of_their_sender(tmp_path: Path) -> None:
    async def run() -> bytes:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(tmp_path / "s"))
        async with serving(listener, ConnectionLimits()), asyncio.timeout(LONG_S):
            return await answer(await asyncio.open_unix_connection(str(tmp_path / "s")), ASK)

    said = asyncio.run(run())

    assert said.endswith(f'{{"uid":{tmp_path.stat().st_uid}}}'.encode())
