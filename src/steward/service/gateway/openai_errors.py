"""Errors as OpenAI's clients read them: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from aiohttp import web

__all__ = ["GatewayError", "error_body", "error_event", "error_response"]

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


class GatewayError(Exception):
    """A request that gets an error for an answer."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
        retriable: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.headers = dict(headers or {})
        self.retriable = retriable  # another attempt cannot answer anything twice


def error_body(fault: GatewayError) -> bytes:
    """Return the error object."""
    kind = _TYPES.get(fault.status, "invalid_request_error" if fault.status < 500 else "api_error")
    return orjson.dumps(
        {
            "error": {
                # bytes of a header that are no UTF-8 are surrogates, which JSON has no place for
                "message": fault.message.encode("utf-8", "replace").decode(),
                "type": kind,
                "param": fault.param,
                "code": fault.code,
            }
        }
    )


def error_event(fault: GatewayError) -> bytes:
    """Return the error as the last event of a stream that had begun."""
    return b"data: " + error_body(fault) + b"\n\n"


def error_response(fault: GatewayError) -> web.Response:
    """Return the error as an answer."""
    return web.Response(
        status=fault.status,
        body=error_body(fault),
        headers=fault.headers,
        content_type="application/json",
    )
