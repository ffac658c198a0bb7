"""How long does one turn take, and how long from new samples to decisions that are written down?

A simulated site of 64, 1,024 and 8,192 GPUs (with 2,000 jobs in view at 1,024) is turned as it
would be live: normalising, storing, folding, learning, recognising with all rules that come with
steward, detecting, deciding, judging, acting and journaling with fsync on a real disk. What the
simulator itself needs to produce the samples is measured and left out: live, that time is spent
elsewhere.

Between the turns the same small computation is timed again and again: how far its 99th percentile
is above its median (`noise`) is the machine's own part in the tail of the turns.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from report import bar, finish, progress, quick
from steward.clock import ManualClock
from steward.config.assemble import assemble
from steward.config.settings import Settings
from steward.model.event import Availability, Observation
from steward.sim.scenario import sized
from steward.sim.world import World

START_S = 1_800_000_000.0
EVERY_S = 10.0
SIZES = {64: 160, 1024: 2700, 8192: 16000}  # GPUs: jobs in view at first; lending thins the queue
TURNS = {64: 1000, 1024: 1000, 8192: 300}
SETTLE_S = 0.05  # live, ten seconds: what is written beside the loop is done by the next turn
WARM_TURNS = 40  # more than the five idle minutes that it takes to find anything


class Timed:
    """The world as a collector, with a watch on how long it takes."""

    vocabulary = "canonical"

    def __init__(self, world: World) -> None:
        self.name = world.name
        self.world = world
        self.seconds = 0.0

    def available(self) -> Availability:
        """Say what the world says."""
        return self.world.available()

    def collect(self, t_s: float) -> Observation:
        """Collect, and remember for how long that took."""
        began_s = time.perf_counter()
        seen = self.world.collect(t_s)
        self.seconds = time.perf_counter() - began_s
        return seen

    def close(self) -> None:
        """Hold nothing open."""


def _same_work_ms() -> float:
    """Do the same work as ever, about as long as the rules of a turn take; return how long."""
    began_s = time.perf_counter()
    total = 0
    for i in range(300_000):
        total += i & 7
    return (time.perf_counter() - began_s) * 1000


def measure(gpus: int, jobs: int, turns: int) -> dict[str, Any]:
    """Turn a site of this size and return its latencies."""
    world = World(sized(gpus, jobs), seed=1, start_s=START_S)
    clock = ManualClock(START_S)
    collector = Timed(world)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        settings = Settings.model_validate(
            {
                "loop": {"autonomy": "auto", "every_s": EVERY_S},
                "observe": {"timeout_s": 60.0},
                "store": {"folder": folder},
                "guard": {
                    "disturbed_gpus_per_hour": gpus,
                    "disturbed_gpus_per_tenant_per_hour": gpus,
                },
            }
        )
        loop = assemble(settings, clock=clock, collectors=[collector], actuator=world)
        took_ms, decided_ms, cpu_ms, in_view, same_ms = [], [], [], [], []
        for turn in range(WARM_TURNS + turns):
            if turn == WARM_TURNS:
                loop.settle()  # as `run` does after its first turns
            began_cpu_s = time.thread_time()
            loop.turn()
            cpu_s = time.thread_time() - began_cpu_s  # the collector has a thread of its own
            clock.set(clock.now_s() + EVERY_S)
            time.sleep(SETTLE_S)
            if turn >= WARM_TURNS:
                took_ms.append((loop.status.last_turn_s - collector.seconds) * 1000)
                decided_ms.append((loop.status.last_decided_s - collector.seconds) * 1000)
                cpu_ms.append(cpu_s * 1000)
                in_view.append(len(loop.view.jobs))
                same_ms.append(_same_work_ms())
        decided = len(loop.journal.read(kinds=("decision",), limit=1_000_000))
        loop.close()
    p50, p90, p99 = np.percentile(took_ms, [50, 90, 99])
    return {
        "p50_ms": round(float(p50), 2),
        "p90_ms": round(float(p90), 2),
        "p99_ms": round(float(p99), 2),
        "max_ms": round(max(took_ms), 2),
        "decided_p50_ms": round(float(np.percentile(decided_ms, 50)), 2),
        "decided_p99_ms": round(float(np.percentile(decided_ms, 99)), 2),
        "cpu_p50_ms": round(float(np.percentile(cpu_ms, 50)), 2),
        "cpu_p99_ms": round(float(np.percentile(cpu_ms, 99)), 2),
        "noise": round(float(np.divide(*np.percentile(same_ms, [99, 50]))), 2),
        "turns": turns,
        "jobs_in_view": round(float(np.mean(in_view))),
        "decisions": decided,
    }


def main() -> None:
    """Measure all sizes; the bar is on the one that the mission names."""
    short = quick()
    results = {}
    for gpus, jobs in SIZES.items():
        turns = 100 if short else TURNS[gpus]
        progress(f"{gpus} GPUs, {turns} turns …")
        results[str(gpus)] = measure(gpus, jobs, turns)
        progress(f"  {results[str(gpus)]}")
    finish(
        "loop_latency",
        {"gpus": results},
        [
            bar(
                "p99 from samples to decisions at 1,024 GPUs in ms",
                results["1024"]["decided_p99_ms"],
                "<",
                100.0,
            ),
            bar("p99 of a turn at 1,024 GPUs in ms", results["1024"]["p99_ms"], "<", 150.0),
            bar("p99 of a turn at 8,192 GPUs in ms", results["8192"]["p99_ms"], "<", 1000.0),
            bar("mean jobs in view at 1,024 GPUs", results["1024"]["jobs_in_view"], ">=", 2000),
            bar("decisions at 1,024 GPUs", results["1024"]["decisions"], ">", 0),
        ],
    )


if __name__ == "__main__":
    main()
