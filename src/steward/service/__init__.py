"""HTTP API and live dashboard. They read the journal and the view; they decide nothing.

Belongs here: who may come in, what is shown and in which shape. Does not: any judgement about the
cluster. A person's choice is written to the journal, where the loop reads it.
"""

from __future__ import annotations

from steward.service.app import create_app
from steward.service.server import serve

__all__ = ["create_app", "serve"]
