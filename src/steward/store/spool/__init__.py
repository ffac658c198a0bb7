"""Bodies that must not be lost on their way: on disk before they are acknowledged.

Belongs here: keeping numbered bodies in order, and getting them back after a crash. Does not: what
is in them. The agent's buffer and the server's intake are both a `Spool`; they differ only in what
they do when it is full.
"""

from __future__ import annotations

from steward.store.spool.folder import Spool, SpoolFullError
from steward.store.spool.segment import SpoolRecord
from steward.store.spool.streams import StreamPositions

__all__ = ["Spool", "SpoolFullError", "SpoolRecord", "StreamPositions"]
