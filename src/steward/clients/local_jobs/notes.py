"""What an owner should know of an attempt although it changes nothing: damage, dropped output."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steward.clients.local_jobs.exchange import number_of, read_reply, text_of
from steward.training.protocol import PROGRESS

__all__ = ["Notes", "dropped", "fallbacks"]

Notes = tuple[tuple[str, str], ...]  # why, which everybody may read, and the owner's detail
FELL_BACK = "it fell back from a damaged checkpoint to the one before"
MOST_FALLBACKS = 10


def fallbacks(work: Path) -> Notes:
    """Return the checkpoints that a resumed attempt found damaged, as it reports them."""
    found = read_reply(work / PROGRESS).get("fell_back")
    texts = found[:MOST_FALLBACKS] if isinstance(found, list) else []
    return tuple((FELL_BACK, text_of(each)) for each in texts)


def dropped(ended: Mapping[str, Any]) -> Notes:
    """Return how much output the shim dropped."""
    count = int(number_of(ended.get("dropped_bytes")))
    why = text_of(ended.get("dropped_why") or "the log has reached its size limit").lower()
    return ((f"{count} bytes of its output were dropped: {why}", ""),) if count else ()
