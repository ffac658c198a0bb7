"""Asks again while the other side cannot answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from steward.errors import TemporaryError

__all__ = ["retried"]

T = TypeVar("T")
RETRY_S = 1.0


def retried(ask: Callable[[], T], within_s: float, *, pause_s: float = RETRY_S) -> T:
    """Return an answer, though the other side is not able to give it at once."""
    end_s = time.monotonic() + within_s
    while True:
        try:
            return ask()
        except TemporaryError:
            if time.monotonic() > end_s:
                raise
            time.sleep(pause_s)
