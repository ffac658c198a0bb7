"""What the routes of files and batches share: small JSON bodies, pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web

from steward.service.gateway.openai_errors import GatewayError

__all__ = ["arriving", "json_response", "page_limit", "read_object"]

_BODY_BYTES = 2**18


def json_response(record: dict[str, Any]) -> web.Response:
    """Return a record as an answer."""
    return web.Response(body=orjson.dumps(record), content_type="application/json")


@asynccontextmanager
async def arriving(within_s: float) -> AsyncIterator[None]:
    """Raise what the sender has to be told if it takes longer than that."""
    try:
        async with asyncio.timeout(within_s):
            yield
    except TimeoutError:
        message = f"nothing more arrived within {within_s:g} s"
        raise GatewayError(408, message, code="too_slow") from None


async def read_object(request: web.BaseRequest, within_s: float) -> dict[str, Any]:
    """Read a small JSON object."""
    held = bytearray()
    async with arriving(within_s):
        async for chunk in request.content.iter_any():
            held += chunk
            if len(held) > _BODY_BYTES:
                message = f"the body is larger than {_BODY_BYTES} bytes"
                raise GatewayError(413, message, code="request_too_large")
    try:
        fields = orjson.loads(bytes(held))
    except orjson.JSONDecodeError as fault:
        message = f"the body is no JSON: {fault}"
        raise GatewayError(400, message, code="invalid_json") from None
    if not isinstance(fields, dict):
        raise GatewayError(400, "the body is no JSON object", code="invalid_json")
    return fields


def page_limit(request: web.BaseRequest, *, default: int, most: int) -> int:
    """Return how many rows a client asks for."""
    given = request.query.get("limit", str(default))
    if not given.isascii() or not given.isdigit() or not 1 <= int(given[:9]) <= most:
        message = f"`limit` is '{given[:20]}', not a number from 1 to {most}"
        raise GatewayError(400, message, code="invalid_request", param="limit")
    return int(given)
