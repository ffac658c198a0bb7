"""Serves a fleet with faults, as `steward up` would (FOLDER HOST AUTONOMY)."""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

from service.fleet_world import LOST, TEARDOWN, XID, FleetWorld, fleet_loop
from steward.config.settings import Settings
from steward.model.decision import Autonomy
from steward.service import serve
from steward.service.server import Listening

START_S = 1_700_000_000.0
DAY_S = 86_400.0
LEAD_S = 20 * DAY_S


class FleetClock:
    """Takes long turns through the weeks before anybody looks, and real ones from then on."""

    def __init__(self) -> None:
        self.t_s, self.began_s = START_S, None

    t_s: float
    began_s: float | None

    def now_s(self) -> float:
        return self.t_s + (time.monotonic() - self.began_s if self.began_s is not None else 0.0)

    def elapsed_s(self) -> float:
        return self.now_s()

    def wait(self, seconds: float, stop: threading.Event) -> None:
        stop.wait(min(seconds, 1.0))


def planned(world: FleetWorld) -> None:
    """Plan weeks of faults: a lemon, an outage, storms, and a node that is being mended."""
    for day in (3, 7, 11, 15, 19):
        world.say("n03", XID.format(bus="1a", code=119, text="Timeout"), START_S + day * DAY_S)
    for row in range(8):
        text = XID.format(bus="1a", code=74, text="NVLink: fatal error detected on link 6")
        world.say(f"n{row:02d}", text, START_S + 9 * DAY_S + row)
    for k in range(40):
        world.say(f"n{k % 12:02d}", TEARDOWN, START_S + 0.45 * DAY_S * k + 7.0)
    world.say("n07", XID.format(bus="3b", code=48, text="DBE"), START_S + 13 * DAY_S)
    world.say("n07", XID.format(bus="3b", code=63, text="Row Remapper"), START_S + 13 * DAY_S + 1)
    world.say("n05", XID.format(bus="3b", code=94, text="Contained"), START_S + LEAD_S - 900.0)
    world.say("n09", LOST, START_S + LEAD_S - 60.0)
    world.failed.add("n09/gpu3")


def main(folder: str, host: str, autonomy: str) -> None:
    clock, world = FleetClock(), FleetWorld(16, 8, tested_well=False)
    planned(world)
    loop = fleet_loop(Path(folder), world, clock, autonomy=Autonomy(autonomy))
    while clock.t_s < START_S + LEAD_S:
        loop.turn()
        late = clock.t_s > START_S + LEAD_S - 3600.0
        clock.t_s += 60.0 if late else 3600.0
    clock.began_s = time.monotonic()
    settings = Settings.model_validate(
        {
            "site": {"name": "fleet"},
            "store": {"folder": folder},
            "service": {
                "host": host,
                "port": 0,
                "plain_http": True,
                "requests_per_minute": 100_000,
            },
        }
    )
    serve(loop, settings, announce=_announce)


def _announce(listening: Listening) -> None:
    sys.stdout.write(json.dumps(asdict(listening)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
