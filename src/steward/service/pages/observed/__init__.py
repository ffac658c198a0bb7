"""`/nodes`, `/nodes/NODE` and `/gpus/GPU`: telemetry as pictures.

Belongs here: which curves stand together and how figures read. Reading is `service/observed`'s.
"""

from __future__ import annotations

from steward.service.pages.observed.gpu import gpu_page
from steward.service.pages.observed.node import node_page
from steward.service.pages.observed.nodes import nodes_page

__all__ = ["gpu_page", "node_page", "nodes_page"]
