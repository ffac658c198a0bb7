"""A gateway in front of upstreams that do what a test says, all in one event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientSession
from multidict import CIMultiDictProxy

from steward.config.gateway_settings import GatewaySettings, UpstreamSettings
from steward.config.gateway_setup import GatewaySetup
from steward.model.serving.requests import BATCH, INTERACTIVE
from steward.service.gateway.extra_routes import ExtraRoutes
from steward.service.gateway.server import Gateway

CHAT = "/v1/chat/completions"
USAGE = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
ANSWER = {"id": "c-1", "choices": [{"message": {"content": "hello"}}], "usage": USAGE}
EVENTS = (
    b'data: {"choices":[{"delta":{"content":"hel"}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":"lo"}}]}\n\n',
    b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\n',
    b"data: [DONE]\n\n",
)


@dataclass(kw_only=True)
class Exchange:
    """One request as an upstream got it, and the connection to answer on."""

    path: str
    headers: dict[str, str]
    body: bytes
    writer: asyncio.StreamWriter

    async def answer(
        self, value: Any = ANSWER, status: int = 200, headers: str = "", raw: bytes | None = None
    ) -> None:
        body = json.dumps(value).encode() if raw is None else raw
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{headers}"
        self.writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await self.writer.drain()

    async def begin_stream(self) -> None:
        self.writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        await self.writer.drain()

    async def event(self, event: bytes) -> None:
        self.writer.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
        await self.writer.drain()

    async def end_stream(self) -> None:
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def stream(self, events: Sequence[bytes] = EVENTS) -> None:
        await self.begin_stream()
        for each in events:
            await self.event(each)
        await self.end_stream()

    def reset(self) -> None:
        self.writer.transport.abort()


Behaviour = Callable[[Exchange], Awaitable[None]]


async def answers(exchange: Exchange) -> None:
    """Answer as a model server does: whole, or as a stream where it is asked for."""
    if json.loads(exchange.body).get("stream"):
        await exchange.stream()
    else:
        await exchange.answer()


@dataclass
class FakeUpstream:
    """An HTTP server whose behaviour a test can change at any moment."""

    behaviour: Behaviour = answers
    models: list[str] = field(default_factory=lambda: ["m"])
    metrics: str = ""
    healthy: bool = True
    port: int = 0
    got: list[Exchange] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)  # a client that hung up
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for each in list(self._tasks):
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        path = head[0].split()[1]
        now = Exchange(path=path, headers=headers, body=body, writer=writer)
        if path == "/health":
            await now.answer({}, 200 if self.healthy else 500)
        elif path == "/v1/models":
            await now.answer({"data": [{"id": each} for each in self.models]})
        elif path == "/metrics":
            await now.answer(raw=self.metrics.encode(), status=200 if self.metrics else 404)
        else:
            self.got.append(now)
            await self._behave(now, reader)
        return not writer.transport.is_closing()

    async def _behave(self, now: Exchange, reader: asyncio.StreamReader) -> None:
        """Behave as asked, and notice when the client hangs up meanwhile."""
        acting = asyncio.ensure_future(self.behaviour(now))
        hung_up = asyncio.ensure_future(_end_of(reader))
        await asyncio.wait({acting, hung_up}, return_when=asyncio.FIRST_COMPLETED)
        if not acting.done() or isinstance(acting.exception(), ConnectionError):
            self.gone.set()
            acting.cancel()
        hung_up.cancel()
        await asyncio.gather(acting, hung_up, return_exceptions=True)


async def _end_of(reader: asyncio.StreamReader) -> None:
    while not reader.at_eof() and reader.exception() is None:  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.005)


@dataclass(kw_only=True)
class Bed:
    """The gateway, its upstreams, and a client."""

    gateway: Gateway
    upstreams: tuple[FakeUpstream, ...]
    client: ClientSession

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.gateway.port}"

    async def post(
        self, body: Any = None, *, path: str = CHAT, headers: dict[str, str] | None = None
    ) -> tuple[int, Any, CIMultiDictProxy[str]]:
        data = body if isinstance(body, bytes) else json.dumps(body or chat()).encode()
        async with self.client.post(self.url + path, data=data, headers=headers) as response:
            text = await response.read()
            try:
                value = json.loads(text)
            except ValueError:
                value = text
            return response.status, value, response.headers

    async def get(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        async with self.client.get(self.url + path, headers=headers) as response:
            text = await response.read()
            try:
                return response.status, json.loads(text)
            except ValueError:
                return response.status, text.decode()


def chat(**more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], **more}


async def until(true: Callable[[], object]) -> None:
    """Wait for something that another task of this loop does."""
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - whatever it is, it has no event
            await asyncio.sleep(0.005)


@asynccontextmanager
async def bed(
    *upstreams: FakeUpstream,
    models: Sequence[str] = ("m",),
    limit: int = 256,
    extras: Sequence[ExtraRoutes] = (),
    upstream_settings: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Bed]:
    """Run a gateway in front of these upstreams; it knows their models from the start."""
    there = upstreams or (FakeUpstream(),)
    async with AsyncExitStack() as stack:
        for each in there:
            await each.start()
            stack.push_async_callback(each.stop)
        setup = setup_of(
            *there, models=models, limit=limit, upstream_settings=upstream_settings, **settings
        )
        gateway = Gateway(setup, extras=extras)
        await gateway.start()
        stack.push_async_callback(gateway.stop, drain_s=0)
        client = await stack.enter_async_context(ClientSession())
        yield Bed(gateway=gateway, upstreams=there, client=client)


def setup_of(
    *upstreams: FakeUpstream,
    models: Sequence[str] = ("m",),
    limit: int = 256,
    upstream_settings: dict[str, Any] | None = None,
    **settings: Any,
) -> GatewaySetup:
    quick: dict[str, Any] = {"port": 0, "health_every_s": 0.05, "breaker_rest_s": 0.05}
    more = upstream_settings or {}
    return GatewaySetup(
        settings=GatewaySettings.model_validate({**quick, **settings}),
        upstreams={
            f"u{number}": UpstreamSettings.model_validate(
                {"url": each.url, "models": tuple(models), "limit": limit, **more}
            )
            for number, each in enumerate(upstreams, 1)
        },
        classes=(INTERACTIVE, BATCH),
    )
