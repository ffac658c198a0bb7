"""Advances jobs beside the loop, so that an end is seen within a fraction of a second."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from steward.act.jobs.controller import JobController
from steward.clock import Clock

__all__ = ["advancing"]

log = logging.getLogger(__name__)
EVERY_S = 0.2


@contextmanager
def advancing(
    controller: JobController, clock: Clock, *also: Callable[[float], None]
) -> Iterator[None]:
    """Advance all jobs, and what depends on them, again and again for the length of a block."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(EVERY_S):
            for advance in (controller.advance, *also):
                try:
                    advance(clock.now_s())
                except Exception:
                    log.exception("jobs could not be advanced; it is tried again")

    thread = threading.Thread(target=run, name="jobs", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(5.0)
