"""`/nodes`, `/nodes/NODE` and `/gpus/GPU`: telemetry as charts.

Belongs here: which curves stand together and how figures read. Reading is `service/telemetry`'s.
"""

from __future__ import annotations

from steward.service.pages.telemetry.gpu import gpu_page
from steward.service.pages.telemetry.node import node_page
from steward.service.pages.telemetry.nodes import nodes_page

__all__ = ["gpu_page", "node_page", "nodes_page"]
