"""The gateways that the dashboard shows, and what is wrong with their addresses."""

from __future__ import annotations

from collections.abc import Iterator

from steward.clients.transport_rule import PLAIN_HTTP_HINT, needs_plain_http
from steward.config.mistakes import Wrong
from steward.config.serving_settings import ServingSettings

__all__ = ["shown_gateways", "wrong_gateways"]


def shown_gateways(settings: ServingSettings) -> tuple[str, ...]:
    """Return the gateways of the page Serving: the one that is scaled first."""
    every = (settings.gateway, *settings.shown)
    return tuple(dict.fromkeys(each.rstrip("/") for each in every if each))


def wrong_gateways(settings: ServingSettings) -> Iterator[Wrong]:
    """Yield addresses that would be read in the clear."""
    for key, urls in (("gateway", (settings.gateway,)), ("shown", settings.shown)):
        far = [each for each in urls if needs_plain_http(each)]
        if far and not settings.plain_http:
            problem = f"serving.{key} is plain HTTP to another machine: {', '.join(far)}"
            yield Wrong(path=("serving", key), problem=problem, hint=PLAIN_HTTP_HINT)
