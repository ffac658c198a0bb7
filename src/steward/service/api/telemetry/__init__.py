"""Telemetry over HTTP: nodes and GPUs as they are now, and what their metrics did.

Belongs here: shapes and limits of answers. What is in them is made in `service/telemetry`.
"""

from __future__ import annotations

from steward.service.api.telemetry.gpus import gpu_routes
from steward.service.api.telemetry.nodes import node_routes

__all__ = ["gpu_routes", "node_routes"]
