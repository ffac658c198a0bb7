"""What is wrong with the addresses of gateways that the dashboard shows."""

from __future__ import annotations

from collections.abc import Iterator

from steward.clients.transport_rule import PLAIN_HTTP_HINT, needs_plain_http
from steward.config.mistakes import Wrong
from steward.config.serving_settings import ServingSettings

__all__ = ["wrong_gateways"]


def wrong_gateways(settings: ServingSettings) -> Iterator[Wrong]:
    """Yield addresses that would be read in the clear."""
    far = [each for each in settings.urls if needs_plain_http(each)]
    if far and not settings.plain_http:
        problem = f"serving.urls has plain HTTP to another machine: {', '.join(far)}"
        yield Wrong(path=("serving", "urls"), problem=problem, hint=PLAIN_HTTP_HINT)
