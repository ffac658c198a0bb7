"""Waits for what other threads and programs do, for as long as a busy machine may need.

A test waits for what it is about, never for a time: it ends at once where the machine is quick.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from itertools import count
from typing import TypeVar

__all__ = ["LONG_S", "free_port", "until"]

T = TypeVar("T")
LONG_S = 120.0  # longer than anything takes that works

_PORTS = range(10_000, 32_000)  # Linux gives those from 32768 on to whoever connects anywhere
_turns = count(os.getpid() * 97)  # processes that ask at the same time begin elsewhere


def until(ask: Callable[[], T], *, why: str | Callable[[], str] = "it") -> T:
    """Ask until the answer is something, and return it."""
    end_s = time.monotonic() + LONG_S
    pause_s = 0.005
    while not (answer := ask()):
        if time.monotonic() > end_s:
            raise AssertionError(f"waited in vain for {why() if callable(why) else why}")
        time.sleep(pause_s)
        pause_s = min(1.3 * pause_s, 0.15)  # a service refuses those who ask all the time
    return answer


def free_port() -> int:
    """Return a port that nobody has, and that nobody is given by chance before it is used."""
    while True:
        port = _PORTS[next(_turns) % len(_PORTS)]
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:  # somebody has it
            continue
