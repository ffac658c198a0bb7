"""Runs loops of other domains in threads, beside the one of the cluster."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Self

from steward.loop import Loop

__all__ = ["LoopThreads"]

ENDS_WITHIN_S = 30.0


class LoopThreads:
    """Runs each loop in a thread, while the block lasts."""

    def __init__(self, loops: Sequence[Loop[Any]], *, name: str) -> None:
        self._loops = tuple(loops)
        self._name = name
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        for loop in self._loops:
            thread = threading.Thread(
                target=loop.run, args=(self._stop,), name=self._name, daemon=True
            )
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for loop, thread in zip(self._loops, self._threads, strict=True):
            thread.join(ENDS_WITHIN_S)
            if not thread.is_alive():
                loop.close()
