"""An agent to be killed: python agent.py FOLDER URL RUN. Prints which samples are safe on its disk.

With `-` as its run it takes no samples, sends what is left, and ends.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from itertools import count
from pathlib import Path

import polars as pl

from steward.clients.steward_server import StewardServer
from steward.clock import WallClock
from steward.model.event import Observation
from steward.observe.agent import shipper as module
from steward.observe.agent.buffer import ParcelBuffer
from steward.observe.agent.shipper import AgentIdentity, Shipper
from steward.store.spool import Spool

MOST_WAITING = 100
T0 = float(os.environ["T0"])  # samples that are too old would be removed as such


def main(folder: str, url: str, run: str) -> None:
    module.FIRST_WAIT_S, module.LONGEST_WAIT_S, module.IDLE_S = 0.02, 0.1, 0.01
    spool = Spool(Path(folder), max_bytes=2**26, segment_bytes=20_000)
    sender = AgentIdentity(agent="a", run=f"run-{run}", node="n1")
    shipping = Shipper(ParcelBuffer(spool), StewardServer(url), sender=sender)
    stop = threading.Event()
    thread = threading.Thread(target=shipping.run, args=(stop, WallClock()))
    thread.start()
    if run == "-":
        while shipping.buffer.waiting_parcels:
            time.sleep(0.02)
        stop.set()
        thread.join()
        return
    for number in count():
        rows = [10 * number + each for each in range(10)]
        frame = pl.DataFrame(
            {
                "t_s": [T0 + row for row in rows],
                "entity": [f"n1/gpu{run}"] * 10,
                "gpu.busy_share": [row / 1e6 for row in rows],
            }
        )
        shipping.take(Observation(frame=frame))
        sys.stdout.write(f"{run} {number}\n")
        sys.stdout.flush()
        time.sleep(0.004)
        while shipping.buffer.waiting_parcels > MOST_WAITING:  # a slow server is sent it later
            time.sleep(0.02)


if __name__ == "__main__":
    main(*sys.argv[1:])
