"""Keeps sending what is observed to a Prometheus or an OpenTelemetry collector.

Belongs here: which receivers there are, what waits for each, and the ways out that `exporting`
uses too. Does not: names and labels (`translate`), tries and pauses (`clients/sending`).
"""

from __future__ import annotations

from steward.observe.forwarding.forwarder import Forwarder
from steward.observe.forwarding.target import ForwardStatus, ForwardTarget

__all__ = ["ForwardStatus", "ForwardTarget", "Forwarder"]
