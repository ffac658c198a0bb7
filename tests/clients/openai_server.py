"""A server with OpenAI's API that answers at once, or as a script says, on a thread of its own."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from patience import LONG_S

Misbehave = Callable[[web.Request, int], Awaitable[web.StreamResponse | None]]


@dataclass(slots=True, kw_only=True)
class FakeOpenAi:
    """What it was asked, and where it listens."""

    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    models: Any = field(default_factory=lambda: {"data": [{"id": "m"}]})
    began: threading.Event = field(default_factory=threading.Event)


async def begun(request: web.Request) -> web.StreamResponse:
    """Return a stream that has begun."""
    reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await reply.prepare(request)
    return reply


async def send(reply: web.StreamResponse, event: object) -> None:
    text = event if isinstance(event, str) else json.dumps(event)
    await reply.write(f"data: {text}\n\n".encode())


def token(text: str = "x", *, chat: bool = True, finish: str | None = None) -> dict[str, Any]:
    """Return the event of one token."""
    place = {"delta": {"content": text}} if chat else {"text": text}
    return {"choices": [{"index": 0, "finish_reason": finish, **place}]}


@contextmanager
def nobody() -> Iterator[str]:
    """Give an address at which nothing listens, and nothing will until the block ends."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


@contextmanager
def fake_openai(misbehave: Misbehave | None = None, **given: Any) -> Iterator[FakeOpenAi]:
    """Serve until the block ends. `misbehave` may answer in the server's place."""
    server = FakeOpenAi(**given)
    loop, ready, runner = asyncio.new_event_loop(), threading.Event(), [None]

    async def answer(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        server.bodies.append(body)
        server.classes.append(request.headers.get("x-steward-class", ""))
        server.keys.append(request.headers.get("Authorization", ""))
        server.began.set()
        if misbehave and (other := await misbehave(request, len(server.bodies))) is not None:
            return other
        chat = "messages" in body
        text = body["messages"][0]["content"] if chat else body["prompt"]
        reply = await begun(request)
        await reply.write(b": queue position 1\n\n")
        for _ in range(body["max_tokens"]):
            await send(reply, token(chat=chat))
        await send(reply, token("", chat=chat, finish="length"))
        counts = {"prompt_tokens": len(text.split()), "completion_tokens": body["max_tokens"]}
        await send(reply, {"choices": [], "usage": counts})
        await send(reply, "[DONE]")
        return reply

    async def listed(_request: web.Request) -> web.Response:
        return web.Response(text=json.dumps(server.models), content_type="application/json")

    async def start() -> None:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/v1/chat/completions", answer)
        app.router.add_post("/v1/completions", answer)
        app.router.add_get("/v1/models", listed)
        runner[0] = web.AppRunner(app, shutdown_timeout=0.1)
        await runner[0].setup()
        site = web.TCPSite(runner[0], "127.0.0.1", 0)
        await site.start()
        server.url = f"http://127.0.0.1:{runner[0].addresses[0][1]}"
        ready.set()

    def serve() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(start())
        loop.run_forever()
        loop.run_until_complete(runner[0].cleanup())
        left = asyncio.all_tasks(loop)
        for each in left:
            each.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert ready.wait(LONG_S)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LONG_S)
