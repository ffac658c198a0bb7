"""Where monitoring systems meet steward: they push to it, and they scrape it.

Belongs here: answers by the rules of remote write and OTLP, and the text that Prometheus scrapes.
Does not: what the bytes mean (`observe/receive`) or where they are kept (the intake).
"""

from __future__ import annotations

from steward.service.wire.exposing import Exposed, expose
from steward.service.wire.reception import Reception, Taken, take
from steward.service.wire.routes import wire_routes

__all__ = [
    "Exposed",
    "Reception",
    "Taken",
    "expose",
    "take",
    "wire_routes",
]
