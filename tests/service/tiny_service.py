"""Serves the tiny world, as `steward up` would.

python tiny_service.py FOLDER HOST AUTONOMY [GATEWAY…]
"""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

from steward.config.settings import Settings
from steward.model.decision import Autonomy
from steward.service import serve
from steward.service.server import Listening
from tiny_world import TinyWorld, tiny_loop

START_S = 1_700_000_000.0
LEAD_S = 400.0  # enough for the first decision
SPEED = 20.0


class HeadStart:
    """A clock that jumps over the first `LEAD_S` seconds and then runs faster than life."""

    def __init__(self) -> None:
        self._t_s = START_S
        self._began_s: float | None = None

    @property
    def ahead(self) -> bool:
        return self._began_s is None

    def now_s(self) -> float:
        if self._began_s is None:
            return self._t_s
        return self._t_s + (time.monotonic() - self._began_s) * SPEED

    def elapsed_s(self) -> float:
        return self.now_s()

    def wait(self, seconds: float, stop: threading.Event) -> None:
        if self._began_s is not None:
            stop.wait(seconds / SPEED)
            return
        self._t_s += seconds
        if self._t_s >= START_S + LEAD_S:
            self._began_s = time.monotonic()


def main(folder: str, host: str, autonomy: str, *gateways: str) -> None:
    clock = HeadStart()
    loop = tiny_loop(Path(folder), TinyWorld(), clock, autonomy=Autonomy(autonomy))
    while clock.ahead:  # before anybody can ask: the first decision is there when it listens
        loop.turn()
        clock.wait(loop.every_s, threading.Event())
    settings = Settings.model_validate(
        {
            "site": {"name": "tiny"},
            "store": {"folder": folder},
            "serving": {"shown": gateways},
            "service": {
                "host": host,
                "port": 0,
                "plain_http": True,
                "requests_per_minute": 100_000,
            },
        }
    )
    serve(loop, settings, truth=lambda: 0.0, speed=SPEED, announce=_announce)


def _announce(listening: Listening) -> None:
    sys.stdout.write(json.dumps(asdict(listening)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
