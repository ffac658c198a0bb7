"""Ten minutes of `steward up --demo --speed 60`, as a user starts it, asked all the time.

Watches the process from outside: resident memory must stay flat, every request must be answered,
and the reported GPU-hours must match the simulator's own account.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from report import bar, finish, progress, quick

SPEED = 60
EVERY_S = 5.0
SETTLE_SHARE = 0.3  # caches and pools fill in the first third; growth is judged after it


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ask(port: int, path: str) -> Any:  # noqa: ANN401 - JSON is whatever it is
    """Return what the API says."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as reply:
        return json.loads(reply.read())


def wait_until_ready(port: int, process: subprocess.Popen[bytes]) -> float:
    """Return how many seconds it took until the service was ready."""
    began_s = time.monotonic()
    while process.poll() is None:
        try:
            ask(port, "/readyz")
            return time.monotonic() - began_s
        except OSError:
            time.sleep(0.2)
    sys.exit("steward up ended before it was ready")


def watch(port: int, process: subprocess.Popen[bytes], seconds: float) -> list[tuple[float, float]]:
    """Ask for what a page shows and note the memory, again and again."""
    of = psutil.Process(process.pid)
    began_s = time.monotonic()
    seen = []
    while (passed_s := time.monotonic() - began_s) < seconds:
        for path in ("cluster", "findings", "decisions", "savings"):
            ask(port, f"/api/v1/{path}")
        seen.append((passed_s, of.memory_info().rss / 2**20))
        if len(seen) % 12 == 0:
            hours = ask(port, "/api/v1/savings")["gpu_hours"]["mid"]
            progress(f"{passed_s:5.0f} s: {seen[-1][1]:.0f} MiB, {hours:.2f} GPU-hours")
        time.sleep(EVERY_S)
    return seen


def main() -> None:
    """Start, watch, compare, stop."""
    seconds = 90.0 if quick() else 600.0
    port = free_port()
    steward = Path(sys.executable).parent / "steward"
    with tempfile.TemporaryDirectory() as folder:
        command = [str(steward), "up", "--demo", "--speed", str(SPEED), "--port", str(port)]
        process = subprocess.Popen(
            [*command, "--data", folder, "--no-browser"], stdout=subprocess.DEVNULL
        )
        try:
            ready_s = wait_until_ready(port, process)
            seen = watch(port, process, seconds)
            savings = ask(port, "/api/v1/savings")
            findings = len(ask(port, "/api/v1/findings")["items"])
        finally:
            process.terminate()
            code = process.wait(60)
        after = subprocess.run(
            [str(steward), "report", "--data", folder, "--json"], capture_output=True, check=True
        )
        settled = json.loads(after.stdout)
    times, sizes = np.array(seen).T
    late = times >= SETTLE_SHARE * seconds
    growth = float(sizes[-1] - sizes[late][0])
    trend = float(np.polyfit(times[late], sizes[late], 1)[0]) * 600
    said, true = savings["gpu_hours"]["mid"], savings["simulated_truth_gpu_hours"]
    finish(
        "demo_soak",
        {
            "seconds": seconds,
            "ready_s": round(ready_s, 1),
            "memory_mib_first": round(float(sizes[0]), 1),
            "memory_mib_settled": round(float(sizes[late][0]), 1),
            "memory_mib_last": round(float(sizes[-1]), 1),
            "memory_trend_mib_per_10_min": round(trend, 2),
            "reported_gpu_hours": round(said, 3),
            "true_gpu_hours": round(true, 3),
            "reported_after_stop": settled["gpu_hours"],
            "findings": findings,
            "exit_code": code,
        },
        [
            bar("growth of memory after the first third, in MiB", round(growth, 2), "<", 15.0),
            bar("error of the reported GPU-hours", round(abs(said / true - 1), 5), "<=", 0.01),
            bar("exit code", code, "==", 0),
        ],
    )


if __name__ == "__main__":
    main()
