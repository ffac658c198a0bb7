"""Ten minutes of `steward up --demo --policy commons --speed 60`, asked all the time.

Watches the process from outside: resident memory must stay flat, every request must be answered,
all kinds of actions that the simulated cluster can carry out must have outcomes, and the reported
GPU-hours must match the simulator's own account. A GPU fails after half a simulated hour, so that
its node is drained and comes back. `--policy none` leaves the scheduling to the simulated cluster.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import psutil

from demo_process import Demo, data_folder, report_of
from report import bar, finish, progress
from steward.store.journal import open_journal

SPEED = 60
EVERY_S = 5.0
SETTLE_SHARE = 0.3  # caches and pools fill in the first third; growth is judged after it
SITE = ("lend", "call-back", "drain", "undrain")
SCHEDULING = (*SITE, "start", "resume", "preempt")


def watch(demo: Demo, seconds: float) -> list[tuple[float, float]]:
    """Ask for what a page shows and note the memory, again and again."""
    of = psutil.Process(demo.process.pid)
    began_s = time.monotonic()
    seen = []
    while (passed_s := time.monotonic() - began_s) < seconds:
        for path in ("cluster", "findings", "decisions", "savings"):
            demo.ask(f"/api/v1/{path}")
        seen.append((passed_s, of.memory_info().rss / 2**20))
        if len(seen) % 12 == 0:
            hours = demo.ask("/api/v1/savings")["gpu_hours"]["mid"]
            progress(f"{passed_s:5.0f} s: {seen[-1][1]:.0f} MiB, {hours:.2f} GPU-hours")
        time.sleep(EVERY_S)
    return seen


def outcomes_by_action(folder: str) -> dict[str, dict[str, int]]:
    """Return, by type of action, how many decisions were carried out and how many measured."""
    done: Counter[str] = Counter()
    measured: Counter[str] = Counter()
    journal = open_journal(f"sqlite:///{Path(folder) / 'journal.sqlite3'}")
    with closing(journal):
        before = None
        while page := journal.stories(before=before, limit=500):
            before = page[-1][0]
            for _, story in page:
                carried = any(each.result in ("done", "partly") for each in story.receipts)
                done[story.decision.action.type] += carried
                measured[story.decision.action.type] += bool(story.outcomes)
    return {name: {"done": done[name], "measured": measured[name]} for name in sorted(done)}


def main() -> None:
    """Start, watch, compare, stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="90 seconds, same code")
    parser.add_argument("--policy", default="commons", help="who starts and stops jobs, or none")
    arguments = parser.parse_args()
    seconds = 90.0 if arguments.quick else 600.0
    policy = None if arguments.policy == "none" else arguments.policy
    with data_folder() as folder:
        began_s = time.monotonic()
        demo = Demo(folder, speed=SPEED, policy=policy)
        demo.wait_until_ready()
        ready_s = time.monotonic() - began_s
        try:
            seen = watch(demo, seconds)
            savings = demo.ask("/api/v1/savings")
        finally:
            code = demo.stop()
        settled = report_of(folder)
        actions = outcomes_by_action(folder)
    times, sizes = np.array(seen).T
    late = times >= SETTLE_SHARE * seconds
    growth = float(sizes[-1] - sizes[late][0])
    trend = float(np.polyfit(times[late], sizes[late], 1)[0]) * 600
    reported, true = savings["gpu_hours"]["mid"], savings["simulated_truth_gpu_hours"]
    wanted = SITE if policy is None else SCHEDULING
    unmeasured = [name for name in wanted if not actions.get(name, {}).get("measured")]
    finish(
        "demo_soak",
        {
            "policy": policy,
            "seconds": seconds,
            "ready_s": round(ready_s, 1),
            "memory_mib_first": round(float(sizes[0]), 1),
            "memory_mib_settled": round(float(sizes[late][0]), 1),
            "memory_mib_last": round(float(sizes[-1]), 1),
            "memory_trend_mib_per_10_min": round(trend, 2),
            "reported_gpu_hours": round(reported, 3),
            "true_gpu_hours": round(true, 3),
            "reported_after_stop": settled["gpu_hours"],
            "actions": actions,
            "without_outcomes": unmeasured,
            "exit_code": code,
        },
        [
            bar("growth of memory after the first third, in MiB", round(growth, 2), "<", 15.0),
            bar(
                "error of the reported GPU-hours",
                round(abs(reported - true) / max(abs(true), 1.0), 5),
                "<=",
                0.01,
            ),
            bar("kinds of actions without outcomes", len(unmeasured), "==", 0),
            bar("exit code", code, "==", 0),
        ],
    )


if __name__ == "__main__":
    main()
