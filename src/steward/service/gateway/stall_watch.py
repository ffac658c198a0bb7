"""Notices that a stream has stopped moving, with one timer per pause instead of one per chunk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

__all__ = ["StallWatch"]


class StallWatch:
    """Calls `on_stall` once if nothing moves for `limit_s`."""

    def __init__(self, limit_s: float, on_stall: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self.limit_s = limit_s
        self._on_stall = on_stall
        self._moved_s = self._loop.time()
        self._due_s = self._moved_s + limit_s
        self._timer = self._loop.call_at(self._due_s, self._check)
        self.stalled = False

    def move(
        self, limit_s: float | None = None, on_stall: Callable[[], object] | None = None
    ) -> None:
        """Note that something moved, and what counts as a stall from now on."""
        self._moved_s = self._loop.time()
        if limit_s is not None:
            self.limit_s = limit_s
        if on_stall is not None:
            self._on_stall = on_stall
        due_s = self._moved_s + self.limit_s
        if due_s < self._due_s:  # sooner than the timer would look
            self._timer.cancel()
            self._set(due_s)

    def _set(self, due_s: float) -> None:
        self._due_s = due_s
        self._timer = self._loop.call_at(due_s, self._check)

    def _check(self) -> None:
        due_s = self._moved_s + self.limit_s
        if due_s > self._loop.time():
            self._set(due_s)
            return
        self.stalled = True
        self._on_stall()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
