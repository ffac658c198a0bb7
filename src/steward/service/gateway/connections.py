"""The HTTP server itself: how many connections it takes, and how long a silent one may stay."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from steward.service.gateway.openai_errors import GatewayError, error_body, error_response

__all__ = ["LimitedServer"]

log = logging.getLogger(__name__)

_FIRST_REQUEST_WITHIN_S = 30.0
_KEEPALIVE_S = 75.0
_LINGER_S = 5.0  # for a client that still sends when it is answered already
_HEADER_BYTES = 16384


class LimitedServer(web.Server):
    """Takes `most` connections at once; more get a 503 and are closed."""

    def __init__(self, handler: Any, *, most: int) -> None:  # noqa: ANN401 - aiohttp's own type
        super().__init__(
            handler,
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=_KEEPALIVE_S,
            lingering_time=_LINGER_S,
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
        )
        self._most = most
        self.refused = 0

    def __call__(self) -> Any:  # noqa: ANN401 - either of two protocols
        """Return the protocol of a new connection."""
        if len(self._connections) >= self._most:
            self.refused += 1
            return _Refusal()
        return _Handler(self, loop=self._loop, **self._kwargs)


class _Handler(web.RequestHandler):
    """Closes a connection on which no whole request has come in time: slow clients hold nothing."""

    __slots__ = ()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        asyncio.get_running_loop().call_later(_FIRST_REQUEST_WITHIN_S, self._close_if_silent)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no HTTP in OpenAI's form, without quoting it."""
        if status >= 500:
            return super().handle_error(request, status, exc, message)
        self.log_exception("a request is no valid HTTP", exc_info=exc)
        response = error_response(
            GatewayError(status, "the request is no valid HTTP", code="invalid_http")
        )
        response.headers["Server"] = "steward"
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kw: Any) -> None:  # noqa: ANN401 - as aiohttp has it
        """Log a fault of our own; those of clients quote what was sent, with keys and prompts."""
        fault = kw.get("exc_info")
        if isinstance(fault, (HttpProcessingError, web.RequestPayloadError)):
            log.debug("a client's request was broken: %s", type(fault).__name__)
        else:
            super().log_exception(*args, **kw)

    def _close_if_silent(self) -> None:
        if self._request_count == 0 and self.transport is not None:
            self.force_close()


class _Refusal(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        fault = GatewayError(503, "there are too many connections", code="too_many_connections")
        body = error_body(fault)
        connection = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        connection.write(
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
            b"Connection: close\r\nRetry-After: 1\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        transport.close()
