"""The stand-in's routes: OpenAI's, vLLM's own for sleep and LoRA adapters, and its faults."""

from __future__ import annotations

import asyncio
import hmac
import math
import os
import random
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from functools import partial

import orjson
from aiohttp import web

from steward.errors import StewardError
from steward.service.stand_in.answers import Answer
from steward.service.stand_in.exchange import Collected, Streamed
from steward.service.stand_in.metrics import ServerMetrics
from steward.service.stand_in.pacing import Pacer
from steward.service.stand_in.prompts import Asked, Refusal, asked_of
from steward.service.stand_in.settings import FaultShares, StandInSettings
from steward.sim.serving.live import LiveServer, warm_up

__all__ = ["RunningStandIn", "stand_in"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_BODY_BYTES = 64 * 2**20
_SPREAD = 0.8  # of the logarithm of drawn lengths
_EVENTS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
_OPEN = ("/health", "/metrics", "/ping")  # without a key


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningStandIn:
    """A stand-in that listens."""

    url: str
    server: LiveServer


@asynccontextmanager
async def stand_in(
    settings: StandInSettings, *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[RunningStandIn]:
    """Listen until the block ends; port 0 takes any that is free."""
    warm_up()
    routes = _Routes(settings)
    runner = web.AppRunner(
        routes.app(), access_log=None, handler_cancellation=True, shutdown_timeout=0.5
    )
    await runner.setup()
    try:
        listener = _listen(host, port)
        await web.SockSite(runner, listener, backlog=4096).start()
        number = listener.getsockname()[1]
        yield RunningStandIn(url=f"http://{host}:{number}", server=routes.server)
    finally:
        await runner.cleanup()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as fault:
        listener.close()
        raise StewardError(
            f"cannot listen there: {fault.strerror}",
            where=f"{host}:{port}",
            hint="choose another --port; 0 takes any that is free",
        ) from fault
    return listener


class _Routes:
    """One server with all its routes."""

    def __init__(self, settings: StandInSettings) -> None:
        self.server = LiveServer(
            kind=settings.kind,
            places=settings.places,
            prefix_block_tokens=settings.prefix_block_tokens,
            most_tokens=settings.most_tokens,
        )
        self._settings = settings
        self._faults = settings.faults
        self._random = random.Random(settings.seed)  # noqa: S311 - faults of a test
        self._left = math.inf if settings.fail_after is None else settings.fail_after
        self._metrics = ServerMetrics(
            self.server,
            model=settings.kind.model,
            speed=settings.speed,
            dialect=settings.metrics,
        )
        self._metrics.adapters.update(dict.fromkeys(settings.adapters, 0))
        self._pacer = Pacer(self.server, speed=settings.speed, metrics=self._metrics)

    def app(self) -> web.Application:
        app = web.Application(client_max_size=_BODY_BYTES, middlewares=[self._refusing])
        compute = {
            "/v1/chat/completions": "chat",
            "/v1/completions": "completions",
            "/v1/responses": "responses",
            "/v1/embeddings": "embeddings",
        }
        for path, route in compute.items():
            app.router.add_post(path, partial(self._compute, route))
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/ping", self._health)
        app.router.add_get("/version", self._version)
        app.router.add_get("/metrics", self._show_metrics)
        app.router.add_get("/is_sleeping", self._is_sleeping)
        app.router.add_post("/sleep", self._sleep)
        app.router.add_post("/wake_up", self._wake_up)
        app.router.add_post("/v1/load_lora_adapter", self._load_adapter)
        app.router.add_post("/v1/unload_lora_adapter", self._unload_adapter)
        app.router.add_post("/stand_in/faults", self._set_faults)
        return app

    @web.middleware
    async def _refusing(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check the key, and turn refusals into answers."""
        key = self._settings.api_key
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if (
            key
            and request.path not in _OPEN
            and not hmac.compare_digest(given.encode(), key.encode())
        ):
            return web.json_response({"error": "Unauthorized"}, status=401)
        try:
            return await handler(request)
        except Refusal as refusal:
            return _json(refusal.body, refusal.status)

    async def _compute(self, route: str, request: web.Request) -> web.StreamResponse:
        asked = asked_of(await request.read(), route)
        self._check_model(asked.model)
        answer, output = self._answer(route, asked)
        fault = self._next_fault()
        if fault == "error":
            raise Refusal(500, "a fault that was asked for", kind="InternalServerError")
        if self.server.full:
            raise Refusal(503, "too many requests are here", kind="ServiceUnavailableError")
        break_at = max(1, output // 2)
        adapters = self._metrics.adapters
        if asked.model in adapters:
            adapters[asked.model] += 1
        try:
            if asked.stream:
                return await self._stream(request, answer, output, (fault, break_at))
            return await self._collect(request, answer, output, (fault, break_at))
        finally:
            if adapters.get(asked.model):
                adapters[asked.model] -= 1

    async def _stream(
        self, request: web.Request, answer: Answer, output: int, fault: tuple[str, int]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=_EVENTS)
        response.enable_chunked_encoding()
        await response.prepare(request)
        transport = request.transport
        if transport is None:  # the client has left
            return response
        sink = Streamed(answer, transport, fault=fault[0], break_at=fault[1])
        row = self._start(sink, answer, output)
        try:
            if await sink.done >= 0:
                await response.write_eof()
        finally:
            if not sink.done.done() or sink.done.cancelled() or sink.done.result() < 0:
                self._pacer.stop(row)
        return response

    async def _collect(
        self, request: web.Request, answer: Answer, output: int, fault: tuple[str, int]
    ) -> web.StreamResponse:
        sink = Collected(fault=fault[0], break_at=fault[1])
        row = self._start(sink, answer, output)
        try:
            generated = await sink.done
        except asyncio.CancelledError:
            self._pacer.stop(row)
            raise
        if fault[0]:
            self._pacer.stop(row)
            if fault[0] == "garbage":
                return _json(b"\x00\xff<html>{{{", 200)
            if request.transport is not None:
                request.transport.abort()
        answer.cached_tokens = int(self.server.state.reused[row])
        return _json(answer.body(generated), 200)

    def _start(self, sink: Streamed | Collected, answer: Answer, output: int) -> int:
        asked = answer.asked
        block = self._settings.prefix_block_tokens
        row = self._pacer.start(
            sink,
            prompt_tokens=asked.prompt_tokens,
            output_tokens=output,
            prefix=asked.prefix_keys(block) if block else [],
        )
        self._metrics.reasons[row] = answer.reason
        return row

    def _answer(self, route: str, asked: Asked) -> tuple[Answer, int]:
        """Return the answer and how long it will be, which only the request and the seed decide."""
        settings = self._settings
        room = settings.most_tokens - asked.prompt_tokens
        least = 1 if asked.max_tokens is None else asked.max_tokens
        if room < least or not self.server.fits(asked.prompt_tokens + least):
            raise Refusal(
                400,
                f"This model's maximum context length is {settings.most_tokens} tokens. However, "
                f"you requested {asked.prompt_tokens + least} tokens ({asked.prompt_tokens} in the "
                f"messages, {least} in the completion).",
                kind="BadRequestError",
            )
        if route == "embeddings":
            return Answer(route=route, asked=asked, reason="stop"), 1
        most = asked.max_tokens or room
        drawn = self._drawn(asked.digest)
        whole = asked.max_tokens is not None and (settings.exact or asked.ignore_eos)
        output = most if whole else min(most, drawn)
        while not self.server.fits(asked.prompt_tokens + output):
            output //= 2
        reason = "length" if output == asked.max_tokens else "stop"
        return Answer(route=route, asked=asked, reason=reason), output

    def _drawn(self, digest: int) -> int:
        draw = random.Random(digest * 1_000_003 + self._settings.seed)  # noqa: S311 - a length
        mean = math.log(self._settings.mean_output) - _SPREAD**2 / 2
        return max(1, round(draw.lognormvariate(mean, _SPREAD)))

    def _next_fault(self) -> str:
        self._left -= 1
        if self._left < 0:
            os.kill(os.getpid(), signal.SIGKILL)  # as a server that runs out of memory
        return self._faults.kind(self._random.random())

    def _check_model(self, name: str) -> None:
        if name != self._settings.kind.model and name not in self._metrics.adapters:
            message = f"The model `{name}` does not exist."
            raise Refusal(404, message, kind="NotFoundError", param="model")

    async def _models(self, _request: web.Request) -> web.Response:
        base = self._settings.kind.model
        card = {"object": "model", "created": 0, "owned_by": "steward"}
        rows = [
            {"id": name, **card, "root": name, "parent": None if name == base else base}
            for name in (base, *self._metrics.adapters)
        ]
        rows[0]["max_model_len"] = self._settings.most_tokens
        return web.json_response({"object": "list", "data": rows})

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, _request: web.Request) -> web.Response:
        return web.json_response({"version": "stand-in"})

    async def _show_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.text(), content_type="text/plain")

    async def _is_sleeping(self, _request: web.Request) -> web.Response:
        return web.json_response({"is_sleeping": self.server.asleep})

    async def _sleep(self, _request: web.Request) -> web.Response:
        self._pacer.sleep()
        return web.Response()

    async def _wake_up(self, _request: web.Request) -> web.Response:
        if self.server.asleep:
            await self._pacer.wake(self._settings.kind.swap_s)
        return web.Response()

    async def _load_adapter(self, request: web.Request) -> web.Response:
        name = await _name(request)
        if name in self._metrics.adapters or name == self._settings.kind.model:
            message = f"The lora adapter '{name}' has already been loaded."
            raise Refusal(400, message, kind="InvalidUserInput")
        self._metrics.adapters[name] = 0
        return web.Response(text=f"Success: LoRA adapter '{name}' added successfully.")

    async def _unload_adapter(self, request: web.Request) -> web.Response:
        name = await _name(request)
        if self._metrics.adapters.pop(name, None) is None:
            message = f"The lora adapter '{name}' cannot be found."
            raise Refusal(404, message, kind="NotFoundError")
        return web.Response(text=f"Success: LoRA adapter '{name}' removed successfully.")

    async def _set_faults(self, request: web.Request) -> web.Response:
        try:
            given = orjson.loads(await request.read())
            known = [each.name for each in fields(FaultShares)]
            unknown = sorted(set(given) - set(known))
            if unknown:
                known_names = ", ".join(known)
                message = f"there is no fault {', '.join(unknown)}; known: {known_names}"
                raise Refusal(400, message, kind="BadRequestError")
            self._faults = FaultShares(**{name: float(share) for name, share in given.items()})
        except (ValueError, TypeError, AttributeError, StewardError) as fault:
            raise Refusal(400, f"no shares of faults: {fault}", kind="BadRequestError") from None
        return web.Response()


async def _name(request: web.Request) -> str:
    try:
        name = orjson.loads(await request.read())["lora_name"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        name = None
    if not isinstance(name, str) or not name:
        raise Refusal(400, "`lora_name` is missing", kind="InvalidUserInput")
    return name


def _json(body: bytes, status: int) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")
