"""Drives a simulated server by the event loop's clock, and hands tokens on as steps end."""

from __future__ import annotations

import asyncio
import math
from typing import Protocol

from steward.service.stand_in.metrics import ServerMetrics
from steward.sim.serving.live import LiveServer

__all__ = ["Pacer", "TokenSink"]

_TICK_S = 0.001  # the finest that the event loop's timers tell apart


class TokenSink(Protocol):
    """What takes the tokens of one request."""

    def push(self, generated: int, *, ended: bool) -> None:
        """Take note that so many tokens are there in all."""
        ...


class Pacer:
    """One server, advanced at the end of each of its steps."""

    def __init__(self, server: LiveServer, *, speed: float, metrics: ServerMetrics) -> None:
        self.server = server
        self.metrics = metrics
        self._speed = speed
        self._loop = asyncio.get_running_loop()
        self._begin_s = self._loop.time()
        self._sinks: dict[int, TokenSink] = {}
        self._timer: asyncio.Handle | None = None
        self._due_s = math.inf

    def now_s(self) -> float:
        """Return the server's own time."""
        return (self._loop.time() - self._begin_s) * self._speed

    def start(
        self, sink: TokenSink, *, prompt_tokens: int, output_tokens: int, prefix: list[int]
    ) -> int:
        """Submit a request whose tokens go to `sink`; return its row."""
        row = self.server.submit(
            self.now_s(), prompt_tokens=prompt_tokens, output_tokens=output_tokens, prefix=prefix
        )
        self._sinks[row] = sink
        self._schedule()
        return row

    def stop(self, row: int) -> None:
        """Abort a request; its sink gets nothing more."""
        if row in self._sinks:
            self._sinks[row] = _NOWHERE
            self.server.abort(row, self.now_s())
            self._schedule()

    def sleep(self) -> None:
        """Let the server sleep: what it runs goes on after `wake`."""
        self.server.sleep(self.now_s())

    async def wake(self, after_s: float) -> None:
        """Wake the server after the seconds of its own time that this takes."""
        await asyncio.sleep(after_s / self._speed)
        self.server.wake()
        self._schedule()

    def _schedule(self) -> None:
        due_s = self.server.next_s()
        if due_s < self._due_s:
            if self._timer is not None:
                self._timer.cancel()
            self._arm(due_s)

    def _arm(self, due_s: float) -> None:
        self._due_s = due_s
        self._timer = None
        if due_s == -math.inf:
            self._timer = self._loop.call_soon(self._tick)
        elif due_s < math.inf:
            wait_s = (due_s - self.now_s()) / self._speed
            ticks = max(1, math.ceil(wait_s / _TICK_S))
            self._timer = self._loop.call_later(ticks * _TICK_S, self._tick)

    def _tick(self) -> None:
        self._due_s = math.inf
        now_s = self.now_s()
        progress = self.server.advance(now_s)
        sinks = self._sinks
        for row, generated, ended in zip(
            progress.rows.tolist(),
            progress.generated.tolist(),
            progress.ended.tolist(),
            strict=True,
        ):
            sink = sinks[row]
            if ended:
                del sinks[row]
            sink.push(generated, ended=ended)
        if len(progress.rows):
            self.metrics.record(now_s, progress, self.server.state)
        self._arm(self.server.next_s())


class _Nowhere:
    def push(self, generated: int, *, ended: bool) -> None: ...


_NOWHERE = _Nowhere()
