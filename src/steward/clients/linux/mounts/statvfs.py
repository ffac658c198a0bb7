"""Asks file systems that may never answer, each in a thread of its own."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["EVERY_S", "UNKNOWN", "Ask", "BoundedStatvfs", "figures"]

Ask = Callable[[str], os.statvfs_result]
EVERY_S = 30.0
UNKNOWN = [math.nan] * 4
_HANGS_AFTER_S = 2.0


@dataclass(slots=True)
class _Question:
    """What was asked of one file system, and what it said last."""

    asked_s: float = -math.inf
    waits: bool = False
    values: list[float] = field(default_factory=lambda: UNKNOWN)


class BoundedStatvfs:
    """Remembers answers. One that does not come is unknown, and nobody else waits for it.

    There is never more than one thread for a file system, however long it hangs.
    """

    def __init__(self, ask: Ask = os.statvfs) -> None:
        self.ask = ask
        self._questions: dict[str, _Question] = {}

    def read(self, path: str, now_s: float) -> list[float]:
        """Return what a file system said last; ask again when it is time."""
        question = self._questions.setdefault(path, _Question())
        if not question.waits and now_s - question.asked_s >= EVERY_S:
            question.asked_s, question.waits = now_s, True
            asker = threading.Thread(
                target=self._wait, args=(path, question), name=f"statvfs {path}", daemon=True
            )
            try:
                asker.start()
            except RuntimeError:  # the machine has no thread left
                question.values, question.waits = UNKNOWN, False
        if question.waits and now_s - question.asked_s > _HANGS_AFTER_S:
            return UNKNOWN
        return question.values

    def forget(self, path: str) -> None:
        """Forget a file system that is not mounted any more, unless it still hangs."""
        if path in self._questions and not self._questions[path].waits:
            del self._questions[path]

    def _wait(self, path: str, question: _Question) -> None:
        try:
            question.values = figures(self.ask(path))
        except OSError:
            question.values = UNKNOWN
        question.waits = False


def figures(said: os.statvfs_result) -> list[float]:
    """Return bytes used, in all and available, and the share of inodes that is used.

    As `df` has it: what is kept for root is neither used nor available.
    """
    block = said.f_frsize
    inodes = (said.f_files - said.f_ffree) / said.f_files if said.f_files else math.nan
    return [
        float((said.f_blocks - said.f_bfree) * block),
        float(said.f_blocks * block),
        float(said.f_bavail * block),
        inodes,
    ]
