"""Interfaces to monitoring systems, which push to steward and scrape it.

Belongs here: answers by the rules of remote write and OTLP, and the text that Prometheus scrapes.
Does not: what the bytes mean (`observe/receive`) or where they are kept (the intake).
"""

from __future__ import annotations

from steward.service.wire.metrics_text import MetricsText, metrics_text
from steward.service.wire.pushed import PushReceiver, PushResult, accept_pushed
from steward.service.wire.routes import wire_routes

__all__ = [
    "MetricsText",
    "PushReceiver",
    "PushResult",
    "accept_pushed",
    "metrics_text",
    "wire_routes",
]
