"""`steward observe top`: machines, GPUs and jobs, live in a terminal.

Belongs here: what is shown and how. Reading is done by collectors, the store or a server.
"""

from __future__ import annotations

from steward.cli.observe.top.command import top

__all__ = ["top"]
