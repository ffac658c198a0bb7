"""One piece of work at a time in a thread of its own, beside a loop that waits for it later."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["DiskThread"]


class DiskThread:
    """Runs work in one thread. What goes wrong there is raised by whoever waits for it."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._running: Future[None] | None = None

    def begin(self, work: Callable[[], None]) -> None:
        """Begin a piece of work; the last one is done by then."""
        self.wait()
        self._running = self._thread.submit(work)

    def wait(self) -> None:
        """Wait for the work that was begun; raise what went wrong, once."""
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def close(self) -> None:
        """Wait, and end the thread."""
        try:
            self.wait()
        finally:
            self._thread.shutdown()
