"""The routes of the gateway: reads requests, checks who sends them, writes answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import orjson
from aiohttp import web

from steward.service.gateway.access import Access
from steward.service.gateway.administration import Administration
from steward.service.gateway.call import Caller, UpstreamCall, UpstreamReply
from steward.service.gateway.call_queue import CallQueue
from steward.service.gateway.client_stream import ClientGone, ClientStream, wait_headers
from steward.service.gateway.extra_routes import ExtraRoutes
from steward.service.gateway.metrics_page import metrics_page
from steward.service.gateway.openai_errors import GatewayError, error_response
from steward.service.gateway.relay import Relay
from steward.service.gateway.request_fields import deadline_of, read_fields
from steward.service.gateway.status import BatchCounts
from steward.service.gateway.status_report import NO_BATCHES, status_of
from steward.service.gateway.ticket import Ticket
from steward.service.gateway.web_pages import refuse_web_pages

__all__ = ["HttpSide"]

log = logging.getLogger(__name__)

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
CALLS = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses")
_UPSTREAMS = "/steward/v1/upstreams/"
_REQUESTS = "/steward/v1/requests/"
_JSON = "application/json"
_LONGEST_ID = 128
_SERVER = {"Server": "steward"}
# Headers that a model server gets as the client sent them.
_SENT_ALONG = ("Accept", "OpenAI-Organization", "OpenAI-Project", "traceparent", "tracestate")


class HttpSide:
    """Answers every request with OpenAI's words, errors included."""

    def __init__(
        self,
        queue: CallQueue,
        relay: Relay,
        access: Access,
        administration: Administration,
        *,
        wall_s: Callable[[], float],
        extras: Sequence[ExtraRoutes] = (),
    ) -> None:
        self._queue = queue
        self._relay = relay
        self.access = access
        self._administration = administration
        self._wall_s = wall_s
        self._extras = {prefix: each for each in extras for prefix in each.prefixes}
        self._known: dict[str, tuple[Ticket, str]] = {}  # by request id, with the caller's name
        self._routes: dict[str, tuple[str, Handler]] = {
            **dict.fromkeys(CALLS, ("POST", self._call)),
            "/v1/models": ("GET", self._models),
            "/health": ("GET", self._health),
            "/metrics": ("GET", self._metrics),
            "/steward/v1/status": ("GET", self._status),
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        try:
            response = await self._answer(request)
        except asyncio.CancelledError:
            self._queue.tallies.disconnects += 1
            raise
        except (ClientGone, ConnectionError):
            self._queue.tallies.disconnects += 1
            if request.transport is not None:
                request.transport.abort()
            return web.Response()  # never written: raising would be logged as a fault of ours
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            response = error_response(
                GatewayError(500, "the gateway failed; its log says why", code="internal_error")
            )
        self._queue.tallies.answers[response.status] += 1
        if not response.prepared:
            response.headers.setdefault("Server", "steward")
        return response

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            if self.access.open:
                refuse_web_pages(request, anonymous=self._queue.settings.anonymous)
            return await self._handler(request)(request)
        except GatewayError as fault:
            self._queue.tallies.faults[fault.code] += 1
            return error_response(fault)
        except web.RequestPayloadError as fault:  # its text quotes the body
            log.debug("%s %s: %s", request.method, request.path, type(fault).__name__)
            return error_response(GatewayError(400, "the body is broken", code="invalid_body"))

    def _handler(self, request: web.BaseRequest) -> Handler:
        path = request.path
        found = self._routes.get(path)
        if found is not None:
            method, handler = found
            if request.method != method:
                raise GatewayError(
                    405,
                    f"{path} takes {method}, not {request.method[:16]}",
                    code="method_not_allowed",
                    headers={"Allow": method},
                )
            return handler
        for prefix, handler in (
            ("/v1/models/", self._model),
            (_REQUESTS, self._request),
            (_UPSTREAMS, self._administer),
        ):
            if path.startswith(prefix):
                return handler
        if any(path == each or path.startswith(f"{each}/") for each in self._extras):
            return self._extra
        raise GatewayError(
            404,
            f"there is no {path[:200]}; there are {', '.join([*self._routes, *self._extras])}",
            code="unknown_url",
        )

    # -- requests to models --------------------------------------------------------------------

    async def _call(self, request: web.BaseRequest) -> web.StreamResponse:
        access = self.access
        caller = access.caller(request.headers)
        access.admit(caller, 1)
        body = await self._body(request)
        call = self._call_of(request, body, caller)
        ticket = self._queue.enter(call)
        known_as = self._remember(ticket, caller)
        charged = ticket.prompt_tokens  # at once: many that come together do not all get in
        access.spend(caller, charged)
        try:
            if call.stream:
                return await self._stream(request, ticket)
            return _response(await self._relay.answer(ticket), ticket)
        finally:
            self._known.pop(known_as, None)
            access.spend(caller, ticket.prompt_tokens + ticket.generated - charged)

    def _call_of(self, request: web.BaseRequest, body: bytes, caller: Caller) -> UpstreamCall:
        headers = request.headers
        fields = read_fields(body)
        model = fields.model or self._only_model()
        along = {name: headers[name] for name in _SENT_ALONG if name in headers}
        if self.access.open and "Authorization" in headers:
            along["Authorization"] = headers["Authorization"]
        given = headers.get("x-request-id", "")
        usable = 0 < len(given) <= _LONGEST_ID and given.isascii() and given.isprintable()
        return UpstreamCall(
            path=request.path,
            body=body,
            model=model,
            stream=fields.stream and request.path != "/v1/embeddings",
            deadline_class=headers.get("x-steward-class", caller.deadline_class),
            deadline_in_s=deadline_of(headers),
            tenant=caller.tenant,
            request_id=given if usable else "",
            headers=along,
        )

    def _only_model(self) -> str:
        models = self._queue.instances.models
        if len(models) == 1:
            return models[0]
        if not models:
            raise GatewayError(
                503,
                "no model server has answered yet; name a model to wait for one",
                code="no_upstream",
                headers={"Retry-After": "1"},
            )
        raise GatewayError(
            400,
            f"the body names no model; there are: {', '.join(models)}",
            code="missing_model",
            param="model",
        )

    async def _stream(self, request: web.BaseRequest, ticket: Ticket) -> web.StreamResponse:
        sink = ClientStream(request, self._queue)
        try:
            reply = await self._relay.stream(ticket, sink)
        except GatewayError as fault:
            if sink.response is None:
                fault.headers.update(wait_headers(ticket))
                raise
            self._queue.tallies.faults[fault.code] += 1
            return await sink.end(fault)
        if reply is None:
            return await sink.end()
        if sink.response is not None:  # it had been told that it waits
            return await sink.say(reply.body)
        return _response(reply, ticket)

    async def _body(self, request: web.BaseRequest) -> bytes:
        settings = self._queue.settings
        most = settings.body_limit_bytes
        if (request.content_length or 0) > most:
            raise _too_large(most)
        chunks, size = [], 0
        try:
            async with asyncio.timeout(settings.body_within_s):
                while chunk := await request.content.readany():
                    chunks.append(chunk)
                    size += len(chunk)
                    if size > most:
                        raise _too_large(most)
        except TimeoutError:
            raise GatewayError(
                408, f"the body did not arrive within {settings.body_within_s:g} s", code="too_slow"
            ) from None
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _remember(self, ticket: Ticket, caller: Caller) -> str:
        """Make a request findable by its id, unless another one has the same."""
        if ticket.id in self._known:
            return ""
        self._known[ticket.id] = (ticket, caller.name)
        return ticket.id

    # -- everything else -----------------------------------------------------------------------

    async def _models(self, request: web.BaseRequest) -> web.StreamResponse:
        self.access.caller(request.headers)
        entries = [_model_entry(name) for name in self._queue.instances.models]
        return _json({"object": "list", "data": entries})

    async def _model(self, request: web.BaseRequest) -> web.StreamResponse:
        self.access.caller(request.headers)
        name = request.path.removeprefix("/v1/models/")
        models = self._queue.instances.models
        if name not in models:
            raise GatewayError(
                404,
                f"the model '{name[:256]}' does not exist; there are: {', '.join(models)}",
                code="model_not_found",
                param="model",
            )
        return _json(_model_entry(name))

    async def _health(self, request: web.BaseRequest) -> web.StreamResponse:
        del request
        if self._queue.closing:
            raise GatewayError(503, "the gateway is shutting down", code="shutting_down")
        live = sum(each.live for each in self._queue.instances.upstreams.values())
        return _json({"status": "ok", "upstreams": live})

    async def _metrics(self, request: web.BaseRequest) -> web.StreamResponse:
        self._may_look(request)
        return web.Response(
            body=metrics_page(self._queue),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    async def _status(self, request: web.BaseRequest) -> web.StreamResponse:
        self._may_look(request)
        return _json(status_of(self._queue, wall_s=self._wall_s, batches=self._batches()))

    async def _request(self, request: web.BaseRequest) -> web.StreamResponse:
        caller = self.access.caller(request.headers)
        found = self._known.get(request.path.removeprefix(_REQUESTS))
        if found is None or (found[1] != caller.name and not caller.admin):
            raise GatewayError(
                404, "no request with this id waits or is being answered", code="unknown_request"
            )
        ticket = found[0]
        expected = self._queue.expected(ticket) if ticket.upstream is None else None
        return _json(
            {
                "id": ticket.id,
                "state": "queued" if ticket.upstream is None else "running",
                "model": ticket.call.model,
                "class": ticket.promised.name,
                "waited_s": self._queue.now_s() - ticket.entered_s,
                "position": None if expected is None else expected.position,
                "expected_s": None if expected is None else expected.expected_s,
                "bound_s": None if expected is None else expected.bound_s,
            }
        )

    async def _administer(self, request: web.BaseRequest) -> web.StreamResponse:
        caller = self.access.caller(request.headers)
        if not caller.admin:
            raise GatewayError(
                403, f"the key '{caller.name}' may not change upstreams", code="not_an_admin"
            )
        rest = request.path.removeprefix(_UPSTREAMS)
        body = await self._body(request)
        return _json(self._administration.carry_out(request.method, rest, body))

    async def _extra(self, request: web.BaseRequest) -> web.StreamResponse:
        caller = self.access.caller(request.headers)
        self.access.admit(caller, 1)
        path = request.path
        prefixes = [each for each in self._extras if path == each or path.startswith(f"{each}/")]
        return await self._extras[prefixes[0]].handle(request, caller)

    def _may_look(self, request: web.BaseRequest) -> None:
        if not self._queue.settings.open_status:
            self.access.caller(request.headers)

    def _batches(self) -> BatchCounts:
        return next((each.counts() for each in self._extras.values()), NO_BATCHES)


def _response(reply: UpstreamReply, ticket: Ticket) -> web.Response:
    return web.Response(
        status=reply.status,
        body=reply.body,
        headers={
            **_SERVER,
            **reply.headers,
            "Content-Type": reply.content_type,
            "x-steward-upstream": reply.upstream,
            **wait_headers(ticket),
        },
    )


def _json(value: object) -> web.Response:
    return web.Response(body=orjson.dumps(value), content_type=_JSON)


def _model_entry(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "steward"}


def _too_large(most: int) -> GatewayError:
    return GatewayError(
        413,
        f"the request has more than {most} bytes, the limit gateway.body_limit_bytes",
        code="request_too_large",
    )
