"""Looks after the upstreams: health, models, and what their own metrics say."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

import orjson
from aiohttp import ClientError, ClientSession, ClientTimeout

from steward.service.gateway.call_queue import CallQueue
from steward.service.gateway.engine_metrics import read_load
from steward.service.gateway.upstream import EngineLoad, Upstream

__all__ = ["UpstreamWatch"]

_METRICS_BYTES = 4 * 2**20
_MODELS_BYTES = 2**20
_MOST_MODELS = 64  # of one upstream
_NO_METRICS_S = 60.0  # until a server without metrics is asked for them again
_CHECK_WITHIN_S = 5.0


class UpstreamWatch:
    """One background task for each upstream; what it finds goes into the upstream."""

    def __init__(self, queue: CallQueue, session: ClientSession) -> None:
        self._queue = queue
        self._session = session
        self._tasks: dict[str, tuple[Upstream, list[asyncio.Task[None]]]] = {}

    def follow(self) -> None:
        """Watch the upstreams that there are now, and no others."""
        now = self._queue.instances.upstreams
        for name, (upstream, tasks) in list(self._tasks.items()):
            if now.get(name) is not upstream:
                for each in tasks:
                    each.cancel()
                del self._tasks[name]
        for name, upstream in now.items():
            if name not in self._tasks:
                rounds = (self._check_health(upstream), self._read_metrics(upstream))
                tasks = [asyncio.create_task(each) for each in rounds]
                self._tasks[name] = (upstream, tasks)

    async def stop(self) -> None:
        """End all tasks."""
        tasks = [each for _, tasks in self._tasks.values() for each in tasks]
        self._tasks.clear()
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _check_health(self, upstream: Upstream) -> None:
        settings = self._queue.settings
        checked_s = -math.inf
        while True:
            due_s = checked_s + settings.health_every_s
            if not upstream.live or self._queue.now_s() >= due_s:
                await self._check_once(upstream)
                checked_s = self._queue.now_s()
            settings = self._queue.settings
            # one that is down may come back any moment, and one that is up may go down
            await asyncio.sleep(min(settings.health_every_s, settings.breaker_rest_s))

    async def _check_once(self, upstream: Upstream) -> None:
        problem = await self._tried(lambda: self._problem(upstream))
        if problem:
            upstream.reachable = False
            self._queue.fail_upstream(upstream, f"health check: {problem}")
            return
        if upstream.reachable is False:
            self._queue.tallies.event("upstream is back", instance=upstream.name)
        upstream.reachable = True
        if upstream.breaker.try_again(self._queue.now_s()):
            self._queue.tallies.event("breaker half-open", instance=upstream.name)
        elif upstream.breaker.state == "closed":
            upstream.breaker.failures = 0
        self._queue.schedule()

    async def _problem(self, upstream: Upstream) -> str:
        """Return why an upstream is not healthy, or an empty text; learn its models."""
        status, _ = await self._get(upstream, "/health", _MODELS_BYTES)
        if status < 400 and (upstream.settings.models or upstream.models):
            return ""
        if status >= 400 and status not in (401, 403, 404, 405):
            return f"/health answered {status}"
        status, body = await self._get(upstream, "/v1/models", _MODELS_BYTES)
        if status >= 400:
            return f"/v1/models answered {status}"
        return self._take_models(upstream, body)

    def _take_models(self, upstream: Upstream, body: bytes) -> str:
        if upstream.settings.models:
            return ""
        try:
            entries = orjson.loads(body)["data"]
            found = [each["id"] for each in entries if isinstance(each["id"], str)]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return "/v1/models is not a list of models"
        models = tuple(dict.fromkeys(found))[:_MOST_MODELS]
        if models and models != upstream.models:
            upstream.models = models
            self._queue.instances.renumber()
            why = f"serves {', '.join(models)}"
            self._queue.tallies.event("models found", instance=upstream.name, why=why)
        return "" if models else "/v1/models lists no models"

    async def _read_metrics(self, upstream: Upstream) -> None:
        while True:
            every_s = self._queue.settings.metrics_every_s
            if not await self._read_once(upstream):
                upstream.load = EngineLoad()
                every_s = max(every_s, _NO_METRICS_S if upstream.reachable else every_s)
            await asyncio.sleep(every_s)

    async def _read_once(self, upstream: Upstream) -> bool:
        """Read the metrics; return False if there are none that are known."""
        try:
            status, body = await self._get(upstream, "/metrics", _METRICS_BYTES)
        except (ClientError, OSError, TimeoutError, ValueError):
            return False
        if status != 200:
            return False
        upstream.take_load(read_load(body.decode("utf-8", "replace")))
        return upstream.load != EngineLoad()

    async def _get(self, upstream: Upstream, path: str, most_bytes: int) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {upstream.api_key}"} if upstream.api_key else {}
        async with self._session.get(
            upstream.url(path),
            headers=headers,
            ssl=upstream.tls,
            timeout=ClientTimeout(total=_CHECK_WITHIN_S),
            allow_redirects=False,
        ) as response:
            body = b""
            while len(body) < most_bytes:
                chunk = await response.content.read(65536)
                if not chunk:
                    break
                body += chunk
            return response.status, body

    async def _tried(self, check: Callable[[], Awaitable[str]]) -> str:
        try:
            return await check()
        except TimeoutError:
            return f"no answer within {_CHECK_WITHIN_S:g} s"
        except (ClientError, OSError, ValueError) as fault:
            return str(fault)[:200] or type(fault).__name__
