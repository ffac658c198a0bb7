"""Reads an upstream's answer: whether it is one, what is wrong with it, what is handed on."""

from __future__ import annotations

import orjson
from aiohttp import ClientResponse

from steward.service.gateway.openai_errors import GatewayError

__all__ = ["check_answer", "error_of", "is_stream", "passed_headers", "pause_of"]

_PARSED_BYTES = 65536  # of larger answers only the ends are looked at
_SHOWN = 500
_PAUSE_S = 1.0  # after a 429 that names no time
_LONGEST_PAUSE_S = 30.0
# Headers that are about one connection, or that the gateway writes itself.
_NOT_PASSED = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te"),
        *("trailer", "transfer-encoding", "upgrade", "content-length", "content-type", "date"),
        *("server", "set-cookie", "x-request-id"),
    }
)


def is_stream(response: ClientResponse) -> bool:
    """Return whether an answer is a stream of server-sent events."""
    return response.status < 400 and response.content_type == "text/event-stream"


def passed_headers(response: ClientResponse) -> dict[str, str]:
    """Return the headers that the client gets as they are."""
    return {
        name: value for name, value in response.headers.items() if name.lower() not in _NOT_PASSED
    }


def check_answer(response: ClientResponse, body: bytes) -> str:
    """Return what is wrong with a whole answer, or an empty text."""
    if "Content-Encoding" in response.headers:
        return ""
    if len(body) > _PARSED_BYTES:
        ends = body[:1] + body.rstrip()[-1:]
        return "" if ends in (b"{}", b"[]") else "its answer is not JSON"
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        return "its answer is not JSON"
    return ""


def error_of(response: ClientResponse, body: bytes, *, retriable: bool) -> GatewayError:
    """Return an upstream's own error in OpenAI's form, whichever form it has."""
    message, code = _said(body)
    headers = {}
    if "Retry-After" in response.headers:
        headers["Retry-After"] = response.headers["Retry-After"]
    return GatewayError(
        response.status,
        f"the model server answered {response.status}" + (f": {message}" if message else ""),
        code=code or ("upstream_busy" if response.status == 429 else "upstream_error"),
        headers=headers,
        retriable=retriable,
    )


def pause_of(response: ClientResponse) -> float:
    """Return how long an upstream that is too busy gets nothing."""
    given = response.headers.get("Retry-After", "")
    return min(float(given), _LONGEST_PAUSE_S) if given.isdecimal() else _PAUSE_S


def _said(body: bytes) -> tuple[str, str]:
    """Return message and code of an error: `{"error": {…}}`, `{"error": …}`, `{"message": …}`."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return "", ""
    if not isinstance(value, dict):
        return "", ""
    inner = value.get("error", value)
    if not isinstance(inner, dict):
        return str(inner)[:_SHOWN], ""
    message = inner.get("message") or inner.get("detail") or ""
    code = inner.get("code")
    return str(message)[:_SHOWN], code if isinstance(code, str) else ""
