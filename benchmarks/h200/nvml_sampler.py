"""The sampling process: reads GPU 0 at a steady pace, as the agent does, until it is told to end.

Needs numpy, pynvml (one file, from a folder in $PYTHONPATH) and steward's NVML client, which needs
no more. Prints `ready` when it begins and writes one .npz when its standard input is closed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent


def steward_client() -> Any:  # noqa: ANN401 - a module
    """Import the client without the package's own start, which wants it to be installed."""
    package = types.ModuleType("steward")
    package.__path__ = [str(HERE.parents[1] / "src" / "steward")]
    sys.modules.setdefault("steward", package)
    return importlib.import_module("steward.clients.nvml")


def tape_module() -> Any:  # noqa: ANN401 - a module
    """Import what is beside this file."""
    sys.path.insert(0, str(HERE))
    return importlib.import_module("nvml_tape")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="where the .npz goes")
    parser.add_argument("--every", type=float, default=0.1, help="seconds between two ticks")
    parser.add_argument("--handles", type=int, default=1, help="read GPU 0 as if it were so many")
    parser.add_argument("--record", type=Path, help="also write the driver's answers (.json.gz)")
    parser.add_argument("--eager", action="store_true", help="read everything at every tick")
    parser.add_argument("--timed", action="store_true", help="measure each call")
    return parser.parse_args()


class Pace:
    """Keeps the time: deadlines are multiples of the period, and one that is over is skipped."""

    def __init__(self, every_s: float) -> None:
        self.every_s = every_s
        self.start_s = time.monotonic()
        self.tick = 0
        self.skipped = 0

    def wait(self) -> float:
        """Sleep until the next deadline; return how late it is."""
        self.tick += 1
        due_s = self.start_s + self.tick * self.every_s
        now_s = time.monotonic()
        if now_s < due_s:
            time.sleep(due_s - now_s)
            now_s = time.monotonic()
        late_s = now_s - due_s
        over = int(late_s / self.every_s)
        self.skipped += over
        self.tick += over
        return late_s


class Samples:
    """What was read, when, how late, and how long it took."""

    def __init__(self, meters: Any) -> None:  # noqa: ANN401 - a class of a module that is found late
        self._meters = meters
        self._row = np.zeros(meters.width)
        self._words = meters.meters[0].names
        self.rows: list[Any] = []
        self.t_s: list[float] = []
        self.late_s: list[float] = []
        self.took_s: list[float] = []
        self.about: dict[str, Any] = {}
        meters.read(self._row, time.monotonic())  # the first reading asks everything

    def fill(self, every_s: float, over: threading.Event) -> None:
        """Read at a steady pace until it is over."""
        pace, cpu_s, began_s = Pace(every_s), time.process_time(), time.monotonic()
        while not over.is_set():
            self.late_s.append(pace.wait())
            self.t_s.append(time.time())
            before_s = time.perf_counter()
            self._meters.read(self._row, time.monotonic())
            self.took_s.append(time.perf_counter() - before_s)
            self.rows.append(self._row[: len(self._words)].copy())
        self.about = {
            "cpu_s": time.process_time() - cpu_s,
            "wall_s": time.monotonic() - began_s,
            "skipped": pace.skipped,
            "every_s": every_s,
            "handles": len(self._meters.meters),
            "resident_bytes": _most_resident_bytes(),
        }

    def save(self, file: Path, **about: object) -> None:
        """Write all of it."""
        np.savez_compressed(
            file,
            words=np.array(self._words),
            values=np.array(self.rows),
            t_s=np.array(self.t_s),
            late_s=np.array(self.late_s),
            took_s=np.array(self.took_s),
            about=np.array(json.dumps({**self.about, **about})),
        )


def main() -> None:
    """Sample until standard input ends."""
    options = arguments()
    nvml = steward_client()
    module, watch, tape = importlib.import_module("pynvml"), None, None
    if options.timed:
        module = watch = tape_module().Stopwatch(module)
    if options.record:
        module = tape = tape_module().Tape(module)
    if options.eager:  # for what is compared, not for what it costs
        meters: Any = importlib.import_module("steward.clients.nvml.readers")
        meters.STEADY_S = meters.RARE_S = meters.SELDOM_S = 0.0
    driver = nvml.Driver(module)
    driver.count()
    samples = Samples(nvml.Meters([driver.meters(0)[0] for _ in range(options.handles)]))
    if watch:
        watch.took_us.clear()
    over = threading.Event()
    threading.Thread(target=_until_closed, args=(over,), daemon=True).start()
    print("ready", flush=True)
    samples.fill(options.every, over)
    if tape:
        for ask in (driver.device, driver.slices, driver.processes):  # the rest of what is asked
            ask(0)
        driver.listen([0])
        driver.xids()
        tape.save(options.record, every_s=options.every, driver=driver.version())
    samples.save(options.out, calls_us=_costs(watch.took_us) if watch else {})


def _most_resident_bytes() -> int:
    """Ask the kernel for this program alone; getrusage counts who started it, before the exec."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def _until_closed(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


def _costs(took_us: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    return {
        name: {
            "calls": len(each),
            "mean_us": round(float(np.mean(each)), 2),
            "p50_us": round(float(np.median(each)), 2),
            "p99_us": round(float(np.quantile(each, 0.99)), 2),
        }
        for name, each in sorted(took_us.items())
    }


if __name__ == "__main__":
    main()
