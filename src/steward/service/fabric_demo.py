"""The fabric that a demo shows: simulated jobs under Netscope, while somebody looks.

It runs in a thread of its own, one second of simulation for one of a viewer's time, and rests when
nobody has looked for a while.
"""

from __future__ import annotations

import threading
import time

import numpy as np

from steward.model.fabric import shapes
from steward.model.fabric.view import FabricView
from steward.sim.fabric.background import SMALL_MIX
from steward.sim.fabric.programs import drawn_jobs
from steward.sim.fabric.trial import Done, Trial
from steward.sim.fabric.world import FabricWorld, Surroundings

__all__ = ["FabricDemo"]

TURN_S = 1.0
REST_AFTER_S = 30.0
RUN_S = 600.0  # then it begins anew: background traffic is drawn for so long


class FabricDemo:
    """`latest` starts it; what it returns is never changed afterwards."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: tuple[FabricView, tuple[Done, ...], tuple[tuple[float, float], ...]] | None
        self._seen = None
        self._asked_s = 0.0
        self._thread: threading.Thread | None = None

    def latest(self) -> tuple[FabricView, tuple[Done, ...], tuple[tuple[float, float], ...]] | None:
        """Return the moment, what was done, and the useful share over time; None at first."""
        with self._lock:
            self._asked_s = time.monotonic()
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="fabric-demo", daemon=True)
                self._thread.start()
            return self._seen

    def _run(self) -> None:
        trial = _trial()
        while time.monotonic() - self._asked_s < REST_AFTER_S:
            begun = time.monotonic()
            if trial.world.now_s >= RUN_S:
                trial = _trial()
            view = trial.turn(TURN_S)
            with self._lock:
                self._seen = (view, tuple(trial.done[-12:]), tuple(trial.useful[-120:]))
            time.sleep(max(0.05, TURN_S - (time.monotonic() - begun)))


def _trial() -> Trial:
    fabric = shapes.leaf_spine(leaves=6, nodes_per_leaf=8, spines=3, oversubscription=1.5)
    jobs = drawn_jobs(fabric, 8, np.random.default_rng(1))
    around = Surroundings(
        seed=1, table=SMALL_MIX, background_load=2e-5, seconds=RUN_S, buffer_bytes=1.5e6
    )
    return Trial.of(FabricWorld(fabric, jobs, around), "netscope")
