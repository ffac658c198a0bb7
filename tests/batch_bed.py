"""Routes of files and batches over HTTP, with a queue that answers what a test says."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from patience import LONG_S
from steward.config.batch_settings import BatchSettings
from steward.service.gateway.batches import open_batch_routes
from steward.service.gateway.call import Caller, UpstreamCall, UpstreamReply

Reply = Callable[[UpstreamCall], Awaitable[UpstreamReply]]


def completion(call: UpstreamCall) -> UpstreamReply:
    """Answer as a server does, with the prompt for an answer."""
    text = json.loads(call.body)["prompt"]
    body = json.dumps({"choices": [{"text": text}]}, indent=1).encode()
    return UpstreamReply(status=200, body=body, request_id=f"r-{call.request_id}")


async def at_once(call: UpstreamCall) -> UpstreamReply:
    return completion(call)


@dataclass(slots=True)
class Queue:
    """A gateway's queue; `calls` is what was submitted."""

    reply: Reply = at_once
    calls: list[UpstreamCall] = field(default_factory=list)

    async def until(self, count: int) -> None:
        """Wait until so many were submitted."""
        async with asyncio.timeout(LONG_S):
            while len(self.calls) < count:  # noqa: ASYNC110 - it is shared with no event
                await asyncio.sleep(0.01)

    async def submit(self, call: UpstreamCall) -> UpstreamReply:
        self.calls.append(call)
        return await self.reply(call)


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """What a client of one tenant does."""

    session: aiohttp.ClientSession
    url: str

    async def ask(self, method: str, path: str, **rest: Any) -> tuple[int, Any]:
        async with self.session.request(method, self.url + path, **rest) as answer:
            body = await answer.read()
            return answer.status, json.loads(body) if body else None

    async def upload(
        self, content: bytes, *, purpose: str = "batch", tenant: str = "ann"
    ) -> tuple[int, Any]:
        form = aiohttp.FormData()
        form.add_field("purpose", purpose)
        form.add_field("file", io.BytesIO(content), filename="in.jsonl")
        return await self.ask("POST", "/v1/files", data=form, headers={"X-Tenant": tenant})

    async def content(self, file: str) -> bytes:
        async with self.session.get(f"{self.url}/v1/files/{file}/content") as answer:
            assert answer.status == 200
            return await answer.read()

    async def lines(self, file: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (await self.content(file)).splitlines()]

    async def create(self, content: bytes, **changes: Any) -> dict[str, Any]:
        """Upload a file and make a batch of it."""
        _, file = await self.upload(content)
        asked = {
            "input_file_id": file["id"],
            "endpoint": "/v1/completions",
            "completion_window": "1h",
            **changes,
        }
        status, batch = await self.ask("POST", "/v1/batches", json=asked)
        assert status == 200, batch
        found: dict[str, Any] = batch
        return found

    async def until(self, batch: str, *states: str) -> dict[str, Any]:
        """Return the batch once it is in one of these states."""
        async with asyncio.timeout(LONG_S):
            while True:
                _, found = await self.ask("GET", f"/v1/batches/{batch}")
                if found["status"] in states:
                    return dict(found)
                await asyncio.sleep(0.02)


def request_lines(count: int, **changes: Any) -> bytes:
    """Return an input file."""
    return b"".join(line(f"c-{place}", **changes) for place in range(count))


def line(custom_id: str, **changes: Any) -> bytes:
    body = {"model": "m", "prompt": f"say {custom_id}"}
    fields = {"custom_id": custom_id, "method": "POST", "url": "/v1/completions", "body": body}
    return json.dumps(fields | changes).encode() + b"\n"


@asynccontextmanager
async def served(
    folder: Path, queue: Queue, settings: BatchSettings | None = None, *, start: bool = True
) -> AsyncIterator[Client]:
    """Serve the routes; who asks is in the header `X-Tenant`."""
    routes = open_batch_routes(settings or BatchSettings(), folder)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        tenant = request.headers.get("X-Tenant", "ann")
        return await routes.handle(request, Caller(name=tenant, tenant=tenant))

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    if start:
        await routes.start(queue)
    host, port = runner.addresses[0][:2]
    try:
        async with aiohttp.ClientSession() as session:
            yield Client(session=session, url=f"http://{host}:{port}")
    finally:
        await runner.cleanup()
        await routes.stop()


def custom_ids(rows: Iterable[dict[str, Any]]) -> list[str]:
    return [row["custom_id"] for row in rows]
