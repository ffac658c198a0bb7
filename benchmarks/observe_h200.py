"""On a real GPU: what steward reads is true, comes in time, and costs the job next to nothing.

Run on a machine with an NVIDIA GPU, nvidia-smi, numpy and PyTorch; nothing of steward has to be
installed. pynvml (one file of nvidia-ml-py) must be importable, e.g. from a folder in $PYTHONPATH.

    mkdir -p build/carried && cp .venv/lib/python3*/site-packages/pynvml.py build/carried/
    export PYTHONPATH=build/carried
    python3 benchmarks/observe_h200.py agreement duty calls --tape tape.json.gz > a.json
    python3 benchmarks/observe_h200.py pace > b.json
    python3 benchmarks/observe_h200.py handles overhead > c.json
    python3 benchmarks/observe_h200.py --merge a.json b.json c.json > results/observe_h200.json

A later report takes the place of an earlier one's parts, so a part can be measured again alone.
Each prints one JSON object with its bars; the exit status is 1 when one does not hold. Sampling is
always done by another process (`h200/nvml_sampler.py`).
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from h200.close_by import beyond, in_runs, interval
from h200.gpu_load import KINDS, Duty, Training
from report import bar, finish, progress

HERE = Path(__file__).resolve().parent
Bars = list[dict[str, Any]]
Floats = NDArray[np.float64]


# -- the sampling process ----------------------------------------------------------------------


@dataclass
class Sampled:
    """What a sampling process read."""

    file: Path
    process: subprocess.Popen[str]
    values: dict[str, Floats] = field(default_factory=dict)
    t_s: Floats = field(default_factory=lambda: np.empty(0))
    late_s: Floats = field(default_factory=lambda: np.empty(0))
    took_s: Floats = field(default_factory=lambda: np.empty(0))
    about: dict[str, Any] = field(default_factory=dict)

    def end(self) -> None:
        """Let it write what it has, and read that."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        if self.process.wait(timeout=60):
            sys.exit(f"the sampling process ended with {self.process.returncode}")
        with np.load(self.file) as read:
            words = [str(word) for word in read["words"]]
            self.values = {word: read["values"][:, i] for i, word in enumerate(words)}
            self.t_s, self.late_s, self.took_s = read["t_s"], read["late_s"], read["took_s"]
            self.about = json.loads(str(read["about"]))

    def between(self, word: str, from_s: float, to_s: float) -> Floats:
        """Return the values of one word in a span of time."""
        return self.values[word][(self.t_s >= from_s) & (self.t_s < to_s)]


@contextlib.contextmanager
def sampling(*options: object, keep: Path | None = None) -> Iterator[Sampled]:
    """Run a sampling process beside what is done inside; keep its file if asked to."""
    with tempfile.TemporaryDirectory() as folder:
        file = keep or Path(folder) / "samples.npz"
        command = [sys.executable, str(HERE / "h200" / "nvml_sampler.py"), str(file)]
        process = subprocess.Popen(
            [*command, *map(str, options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            sys.exit("the sampling process did not start")
        sampled = Sampled(file=file, process=process)
        try:
            yield sampled
            sampled.end()
        finally:  # what is kept is worth having also where the job failed
            _close(process)
            process.kill()


def _close(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=10)


# -- (a) agreement with nvidia-smi -------------------------------------------------------------


class Dmon:
    """`nvidia-smi dmon`, read as it comes."""

    def __init__(self) -> None:
        self.columns: list[str] = []
        self.rows: list[tuple[float, dict[str, float]]] = []
        command = ["nvidia-smi", "dmon", "-i", "0", "-s", "pucm", "-d", "1"]
        here, there = pty.openpty()  # through a pipe it would keep its lines back
        self._process = subprocess.Popen(command, stdout=there)
        os.close(there)
        threading.Thread(target=self._read, args=(here,), daemon=True).start()

    def _read(self, file: int) -> None:
        with os.fdopen(file, errors="replace") as lines, contextlib.suppress(OSError):
            for line in lines:  # a terminal whose other end is closed raises
                self.line(line, time.time())

    def line(self, line: str, t_s: float) -> None:
        """Take one line: a heading that begins with `# gpu`, one of units, or numbers."""
        words = line.replace("#", " ").split()
        if words[:1] == ["gpu"]:
            self.columns = words
        elif not line.startswith("#") and len(words) == len(self.columns):
            pairs = zip(self.columns, words, strict=True)
            self.rows.append((t_s, {name: _number(word) for name, word in pairs}))

    def between(self, name: str, from_s: float, to_s: float) -> Floats:
        """Return the values of one column in a span of time."""
        return np.array([row.get(name, np.nan) for t_s, row in self.rows if from_s <= t_s < to_s])

    def end(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait(timeout=10)


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:  # `-`: this GPU does not tell it
        return float("nan")


# dmon's column, our word, our unit in theirs, how far apart they may be: relative, absolute
PAIRS = (
    ("pwr", "power.usage", 1e-3, 0.03, 3.0),
    ("gtemp", "temperature.gpu", 1.0, 0.03, 1.5),
    ("mtemp", "temperature.memory", 1.0, 0.03, 1.5),
    ("sm", "utilization.gpu", 1.0, 0.03, 3.0),
    ("mem", "utilization.memory", 1.0, 0.03, 3.0),
    ("mclk", "clock.memory", 1.0, 0.01, 1.0),
    ("pclk", "clock.sm", 1.0, 0.02, 10.0),
    ("fb", "memory.used", 2.0**-20, 0.01, 2.0),
)


# One value a second cannot be compared with ten where a job works for 0.1 s of every 0.2 s.
UNSTEADY = {"half": ("sm", "mem", "pclk")}


def agreement(seconds: float) -> tuple[dict[str, Any], Bars]:
    """Compare means over the same seconds of training with `nvidia-smi dmon`."""
    dmon = Dmon()
    spans: dict[str, tuple[float, float]] = {}
    with sampling("--every", 0.1, "--eager") as sampled:
        _phase(spans, "idle", seconds / 2, time.sleep)
        training = Training()
        training.run(3.0)
        _phase(spans, "training", seconds, training.run)
        del training
        duty = Duty()
        _phase(spans, "half", seconds, lambda s: duty.run(0.5, s))
    dmon.end()
    results = {name: _compared(sampled, dmon, *span) for name, span in spans.items()}
    worst = {
        column: max(
            each[column]["of_allowed"]
            for name, each in results.items()
            if column in each and column not in UNSTEADY.get(name, ())
        )
        for column, *_ in PAIRS
        if column in results["training"]
    }
    energy = {name: _energy(sampled, *span) for name, span in spans.items()}
    bars = [
        bar(f"{c}: difference to dmon, of what is allowed", v, "<=", 1.0) for c, v in worst.items()
    ]
    bars.append(bar("columns compared", len(worst), ">=", 6))
    apart = max(abs(each["power.usage relative"]) for each in energy.values())
    bars.append(bar("energy counter against mean power", apart, "<=", 0.03))
    return {"means": results, "energy": energy, "dmon_lines": len(dmon.rows)}, bars


def _phase(
    spans: dict[str, tuple[float, float]],
    name: str,
    seconds: float,
    work: Callable[[float], object],
) -> None:
    """Do something for a while; the first seconds are left out, since readings lag behind."""
    progress(f"agreement: {name} for {seconds:.0f} s")
    began = time.time()
    work(seconds)
    spans[name] = (began + 3.0, time.time() - 0.5)


def _compared(sampled: Sampled, dmon: Dmon, from_s: float, to_s: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for column, word, scale, relative, absolute in PAIRS:
        theirs = dmon.between(column, from_s, to_s)
        if word not in sampled.values or not np.isfinite(theirs).any():
            continue
        ours = float(np.nanmean(sampled.between(word, from_s, to_s))) * scale
        mean = float(np.nanmean(theirs))
        allowed = max(relative * abs(mean), absolute)
        found[column] = {
            "ours": round(ours, 3),
            "dmon": round(mean, 3),
            "relative": round((ours - mean) / mean, 5) if mean else None,
            "of_allowed": round(abs(ours - mean) / allowed, 4),
        }
    return found


def _energy(sampled: Sampled, from_s: float, to_s: float) -> dict[str, float]:
    """Compare means. Instant power is a point: a load with a period of two ticks deceives it."""
    watts = {
        word: float(np.nanmean(sampled.between(word, from_s, to_s))) / 1000
        for word in ("energy.mean", "power.usage", "power.instant")
        if word in sampled.values
    }
    counted = watts["energy.mean"]
    found = {f"{word} W": round(mean, 2) for word, mean in watts.items()}
    for word in ("power.usage", "power.instant"):
        found[f"{word} relative"] = round((watts.get(word, np.nan) - counted) / counted, 5)
    return found


# -- (b) hardware counters against CUDA events -------------------------------------------------


def duty(seconds: float) -> tuple[dict[str, Any], Bars]:
    """Compare activity with the share of time that CUDA events say kernels ran."""
    load = Duty()
    spans: dict[str, tuple[float, float, float]] = {}
    with sampling("--every", 0.1, "--eager") as sampled:
        for share in (0.25, 0.5, 0.75, 1.0):
            progress(f"duty: {share:.0%} for {seconds:.0f} s")
            load.run(share, 2.0)
            began = time.time()
            measured = load.run(share, seconds)
            spans[f"{share:.0%}"] = (began + 0.3, time.time(), measured)
    words = ("gpm.graphics_util", "gpm.sm_util", "gpm.any_tensor_util", "utilization.gpu")
    results: dict[str, Any] = {}
    for name, (from_s, to_s, measured) in spans.items():
        means = {
            word: round(float(np.nanmean(sampled.between(word, from_s, to_s))) / 100, 4)
            for word in words
            if word in sampled.values
        }
        results[name] = {"cuda_events": round(measured, 4), **means}
    apart = {
        word: max(abs(each[word] - each["cuda_events"]) for each in results.values())
        for word in words[:2]
        if all(word in each for each in results.values())
    }
    return {"shares": results, "product_ms": round(load.one_s * 1000, 3)}, [
        bar("hardware counters that were read", len(apart), "==", 2),
        bar("graphics engine against CUDA events", apart.get(words[0], 1.0), "<=", 0.05),
        bar("SM activity against CUDA events", apart.get(words[1], 1.0), "<=", 0.10),
    ]


# -- (c) pace and cost -------------------------------------------------------------------------


def pace(seconds: float, keep: Path | None = None) -> tuple[dict[str, Any], Bars]:
    """Sample training of every kind ten times a second, and see what a reading costs a step."""
    others_s = seconds * 0.6 / (len(KINDS) - 1)
    with sampling("--every", 0.1, keep=keep) as sampled:
        kinds = [_kind(name, others_s) for name in KINDS if name != "launch-bound"]
        progress(f"pace: launch-bound for {seconds - others_s * len(kinds):.0f} s")
        training = Training(small=True)
        training.run(8.0)
        marks = np.array(training.marks(seconds - others_s * len(kinds)))
    if keep:
        np.save(keep.with_name("steps.npy"), marks)
    one = _pace(sampled)
    cost = _cost(marks, sampled)
    low, high = cost["interval"]
    progress(f"pace: launch-bound {cost['slower']:+.4%} [{low:+.4%}, {high:+.4%}]")
    return {"1 handles every 0.1 s": one, "kinds": kinds, "launch-bound": cost}, [
        bar("seconds of sampling", one["seconds"], ">=", 600),
        bar("samples per second", one["samples_per_s"], ">=", 9.9),
        bar("share of deadlines missed", one["missed_share"], "<=", 0.01),
        bar("share of a core, 1 GPU", one["cpu_share"], "<=", 0.01),
        bar("step time with sampling, launch-bound: slower by, upper end", high, "<", 0.005),
    ]


def _kind(name: str, seconds: float) -> dict[str, Any]:
    """Train in one way for a while; say from when and how fast."""
    progress(f"pace: {name} for {seconds:.0f} s")
    began_s = time.time()
    training = KINDS[name]()
    steps, took_s = training.run(seconds)
    return {
        "kind": name,
        "from_s": round(began_s, 3),
        "to_s": round(time.time(), 3),
        "step_ms": round(took_s / steps * 1000, 3),
        "stalls": [[round(each, 3) for each in stall] for stall in getattr(training, "stalls", ())],
    }


def _cost(marks: Floats, sampled: Sampled) -> dict[str, Any]:
    """Compare the steps in which the driver was asked with those half a period later."""
    every_s, step_s = float(sampled.about["every_s"]), np.diff(marks)
    inside = (sampled.t_s > marks[10]) & (sampled.t_s < marks[-10] - every_s)
    extra_s = beyond(marks, sampled.t_s[inside], every_s)
    low, high = interval(in_runs(extra_s))
    return {
        "from_s": round(float(marks[0]), 3),
        "to_s": round(float(marks[-1]), 3),
        "readings": len(extra_s),
        "reading_mean_ms": round(float(np.mean(sampled.took_s[inside])) * 1000, 3),
        "step_ms": round(float(np.mean(step_s)) * 1000, 3),
        "step_sd_share": round(float(np.std(step_s) / np.mean(step_s)), 4),
        "slower": float(np.mean(in_runs(extra_s))) / every_s,
        "interval": [low / every_s, high / every_s],
    }


def handles(seconds: float) -> tuple[dict[str, Any], Bars]:
    """Sample as if there were eight GPUs."""
    training = Training()
    training.run(2.0)
    results = {}
    for every_s in (0.1, 1.0):
        progress(f"handles: 8 every {every_s} s for {seconds / 2:.0f} s")
        with sampling("--every", every_s, "--handles", 8) as sampled:
            training.run(seconds / 2)
        results[f"8 handles every {every_s} s"] = _pace(sampled)
    eight, slow = results.values()
    return results, [
        bar("share of deadlines missed, 8 handles", eight["missed_share"], "<=", 0.01),
        bar("share of a core, 8 handles", eight["cpu_share"], "<=", 0.03),
        bar("share of a core, 8 handles once a second", slow["cpu_share"], "<=", 0.01),
    ]


def _pace(sampled: Sampled) -> dict[str, Any]:
    count, about = len(sampled.late_s), sampled.about
    return {
        "seconds": round(about["wall_s"], 1),
        "samples_per_s": round(count / about["wall_s"], 3),
        "missed_share": round(about["skipped"] / (count + about["skipped"]), 6),
        "over_10_ms_late_share": round(float(np.mean(sampled.late_s > 0.01)), 6),
        "late_p99_ms": round(float(np.quantile(sampled.late_s, 0.99)) * 1000, 3),
        "tick_mean_ms": round(float(np.mean(sampled.took_s)) * 1000, 3),
        "tick_p99_ms": round(float(np.quantile(sampled.took_s, 0.99)) * 1000, 3),
        "cpu_share": round(about["cpu_s"] / about["wall_s"], 5),
        "resident_mib": round(about["resident_bytes"] / 2**20, 1),
        "values_per_tick": len(sampled.values),
    }


def calls(seconds: float) -> tuple[dict[str, Any], Bars]:
    """Measure what each call of NVML takes while a job trains, and what a tick does."""
    training = Training()
    training.run(2.0)
    progress(f"calls for {seconds:.0f} s")
    with sampling("--every", 0.1, "--timed") as sampled:
        training.run(seconds)
    known = np.mean([np.isfinite(each).any() for each in sampled.values.values()])
    about = {
        "calls": sampled.about["calls_us"],
        "tick_mean_ms": round(float(np.mean(sampled.took_s)) * 1000, 3),
        "words": list(sampled.values),
        "never_known": [w for w, v in sampled.values.items() if not np.isfinite(v).any()],
    }
    return about, [bar("share of values that are known", float(known), ">=", 0.9)]


# -- (d) what it costs the job -----------------------------------------------------------------


def overhead(seconds: float) -> tuple[dict[str, Any], Bars]:
    """Compare step times with sampling on and off, in turns, in pairs of blocks.

    For training that is bound by the GPU; where launches bound it, `pace` compares step by step.
    """
    block_s = 5.0
    pairs = max(10, int(seconds / (2 * block_s)))
    training = Training()
    training.run(8.0)
    with sampling("--every", 0.1) as sampled:
        ratios = _pairs(training, sampled.process.pid, pairs, block_s)
        sampled.process.send_signal(signal.SIGCONT)
    low, high = np.expm1(interval(np.log(ratios)))
    mean = float(np.expm1(np.mean(np.log(ratios))))
    progress(f"overhead: {mean:+.4%} [{low:+.4%}, {high:+.4%}]")
    found = {"pairs": pairs, "block_s": block_s, "slower": mean, "interval": [low, high]}
    name = "step time with sampling, compute-bound: slower by, upper end"
    return {"compute-bound": found}, [bar(name, float(high), "<", 0.005)]


def _pairs(training: Training, pid: int, pairs: int, block_s: float) -> list[float]:
    """Return the ratio of step times, on to off, for each pair; its order changes every time."""
    ratios = []
    for number in range(pairs):
        step_s: dict[bool, float] = {}
        for on in (True, False) if number % 2 else (False, True):
            os.kill(pid, signal.SIGCONT if on else signal.SIGSTOP)
            training.run(0.3)  # let it settle
            steps, took_s = training.run(block_s)
            step_s[on] = took_s / steps
        ratios.append(step_s[True] / step_s[False])
    return ratios


# -- all of it ---------------------------------------------------------------------------------

PARTS: dict[str, tuple[Callable[[float], tuple[dict[str, Any], Bars]], float]] = {
    "agreement": (agreement, 40.0),
    "duty": (duty, 15.0),
    "calls": (calls, 30.0),
    "pace": (pace, 600.0),
    "handles": (handles, 62.0),
    "overhead": (overhead, 210.0),
}


def tape(file: Path, seconds: float) -> None:
    """Record the driver's own answers, through rest, training and rest, for the tests."""
    progress(f"tape: {seconds:.0f} s")
    with sampling("--every", 0.5, "--record", file):
        time.sleep(seconds * 0.2)
        Training().run(seconds * 0.6)
        time.sleep(seconds * 0.2)


def merge(files: Sequence[Path]) -> None:
    """Print several reports of this program as one; say of each part where it was measured."""
    reports = [json.loads(file.read_text()) for file in files]
    whole: dict[str, Any] = {**reports[-1], "results": {}, "bars": [], "measured": {}}
    for report in reports:
        parts = [part for part in report["results"] if part in PARTS]
        again = tuple(f"{part}: " for part in parts)
        kept = [each for each in whole["bars"] if not each["name"].startswith(again)]
        where = {"commit": report["commit"], "machine": report["machine"]}
        whole["results"].update(report["results"])
        whole["bars"] = kept + report["bars"]
        whole["measured"] |= dict.fromkeys(parts, where) | report.get("measured", {})
    print(json.dumps(whole, indent=1))
    sys.exit(0 if all(each["holds"] for each in whole["bars"]) else 1)


def gpu() -> dict[str, str]:
    """Ask nvidia-smi what is measured."""
    if shutil.which("nvidia-smi") is None:
        sys.exit("there is no nvidia-smi: this measures a real NVIDIA GPU")
    query = "--query-gpu=name,driver_version,power.limit"
    said = subprocess.run(
        ["nvidia-smi", query, "--format=csv,noheader"], capture_output=True, text=True, check=True
    )
    name, driver, limit = (word.strip() for word in said.stdout.splitlines()[0].split(","))
    return {"name": name, "driver": driver, "power_limit": limit}


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"{', '.join(PARTS)}; all when none is named")
    parser.add_argument("--minutes", type=float, help="how long each part takes, about")
    parser.add_argument("--tape", type=Path, help="record the driver's answers for a minute")
    parser.add_argument("--tape-seconds", type=float, default=60.0)
    parser.add_argument(
        "--keep", type=Path, help="where the samples of `pace` go (.npz), with its steps"
    )
    parser.add_argument("--merge", nargs="+", type=Path, help="join reports of this program")
    options = parser.parse_args()
    if options.merge:
        merge(options.merge)
    strange = sorted(set(options.parts) - set(PARTS))
    if strange:
        parser.error(f"there is no part {', '.join(strange)}; known: {', '.join(PARTS)}")
    results: dict[str, Any] = {"gpu": gpu()}
    bars: Bars = []
    if options.tape:
        tape(options.tape, options.tape_seconds)
    for name in options.parts or (() if options.tape else PARTS):
        measure, seconds = PARTS[name]
        if measure is pace:
            measure = functools.partial(pace, keep=options.keep)
        try:
            results[name], found = measure(options.minutes * 60 if options.minutes else seconds)
        except Exception as fault:  # noqa: BLE001 - what the other parts measured is not lost
            traceback.print_exc()
            results[name], found = {"fault": repr(fault)}, [bar("it ran", 0, "==", 1)]
        bars += [{**each, "name": f"{name}: {each['name']}"} for each in found]
    finish("observe_h200", results, bars)


if __name__ == "__main__":
    main()
