"""Keeps web pages in the browser of somebody here from using a gateway that asks for no key."""

from __future__ import annotations

from urllib.parse import urlsplit

from aiohttp import web

from steward.clients.transport_rule import is_loopback
from steward.service.gateway.openai_errors import GatewayError

__all__ = ["refuse_web_pages"]


def refuse_web_pages(request: web.BaseRequest, *, anonymous: bool) -> None:
    """Raise if a page of elsewhere sent a request, by its origin or under a name of its own.

    A page whose name is made to point to this machine is of one origin with the gateway: it could
    add an upstream and read all prompts. `anonymous` gateways may have any name.
    """
    host = request.headers.get("Host", "")
    name = _name_in(f"//{host}")
    if host and not anonymous and not is_loopback(name):
        raise GatewayError(
            403,
            f"the request is for host '{name}', but without keys this is for this machine alone: "
            "use http://127.0.0.1, or set gateway.keys_file or gateway.anonymous",
            code="foreign_host",
        )
    origin = request.headers.get("Origin")
    if origin is not None and origin.lower().partition("://")[2] != host.lower():
        raise GatewayError(
            403, f"a page of '{origin[:200]}' may not use this gateway", code="foreign_origin"
        )


def _name_in(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
