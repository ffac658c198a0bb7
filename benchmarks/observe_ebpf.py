"""What the probes cost: each run of a program, each context switch and system call, each reading.

Needs root. Two processes on one core pass a byte to and fro, with and without probes by turns; the
difference is what a switch costs more. The kernel's own clock measures each program.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from time import process_time_ns, sleep
from typing import Any

import numpy as np

from report import bar, finish, progress, quick
from steward.clients.bpf.libbpf import LibBpf
from steward.clients.cgroups import CgroupReader
from steward.observe.collectors.ebpf import Ebpf

_JOBS = 20
_DOZE = "import time\nwhile True: time.sleep(0.1)"
_SETS: dict[str, Sequence[str]] = {
    "sched": ("sched",),
    "syscalls": ("syscalls",),
    "default": ("sched", "block", "faults", "tcp", "syscalls", "cuda"),
}


def _switches_ns(trips: int) -> float:
    """Return the processor time of one context switch: half a round trip between two processes."""
    there, back = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        for _ in range(trips):
            os.read(there[0], 1)
            os.write(back[1], b"x")
        os._exit(0)
    began_ns = process_time_ns()
    for _ in range(trips):
        os.write(there[1], b"x")
        os.read(back[0], 1)
    took_ns = process_time_ns() - began_ns
    _, _, used = os.wait4(child, 0)
    took_ns += int((used.ru_utime + used.ru_stime) * 1e9)
    for fd in (*there, *back):
        os.close(fd)
    return took_ns / trips / 2


def _plain_call_ns(times: int) -> float:
    began_ns = process_time_ns()
    for _ in range(times):
        os.getppid()
    return (process_time_ns() - began_ns) / times


def _counted_call_ns(times: int) -> float:
    file = os.open(sys.executable, os.O_RDONLY)
    began_ns = process_time_ns()
    for _ in range(times):
        os.pread(file, 1, 0)
    took_ns = process_time_ns() - began_ns
    os.close(file)
    return took_ns / times


def _added_ns(
    sets: Sequence[str], measure: Callable[[int], float], *, times: int, rounds: int
) -> dict[str, float]:
    """Measure with and without probes by turns, so that a busy neighbour slows both."""
    with_probes, without = [], []
    for _ in range(rounds):
        without.append(measure(times))
        with closing(Ebpf(sets=sets)) as probes:
            probes.layout()
            with_probes.append(measure(times))
    added = [a - b for a, b in zip(with_probes, without, strict=True)]
    return {
        "without_ns": round(median(without)),
        "with_ns": round(median(with_probes)),
        "added_ns": round(median(added)),
        "added_ns_low": round(min(added)),
        "added_ns_high": round(max(added)),
    }


def _programs(trips: int) -> dict[str, dict[str, float]]:
    """Let the kernel time each program under the same load."""
    loader = LibBpf()
    with closing(Ebpf(sets=_SETS["default"], loader=loader)) as probes:
        probes.layout()
        clock = loader.measure()
        _switches_ns(trips)
        _counted_call_ns(trips)
        costs = probes.costs()
        os.close(clock)
    return {
        name: {"runs": runs, "ns": round(spent_ns / runs)}
        for name, (spent_ns, runs) in costs.items()
        if runs > 100
    }


@contextmanager
def _jobs(count: int) -> Iterator[None]:
    """Make groups like Slurm's, each with a process that wakes up often."""
    cgroups = CgroupReader()
    top = cgroups.hierarchies()[cgroups.hierarchy()] / "slurm-benchmark"
    groups = [top / f"job_{9000 + number}" / "step_0" for number in range(count)]
    children = []
    try:
        for group in groups:
            group.mkdir(parents=True)
            child = subprocess.Popen([sys.executable, "-SEc", _DOZE])
            children.append(child)
            (group / "cgroup.procs").write_text(str(child.pid))
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()
        sleep(0.3)
        for group in groups:
            for folder in (group, group.parent):
                _removed(folder)
        _removed(top)


def _removed(folder: Path) -> None:
    for _ in range(20):
        try:
            return folder.rmdir()
        except OSError:  # its last process has not quite gone
            sleep(0.1)
    return None


def _reading(ticks: int) -> dict[str, Any]:
    """Read ten times a second, as an agent at its fastest.

    Warm figures are of readings without a pause, in which walks over tasks and quantiles are rare.
    """
    with _jobs(_JOBS), closing(Ebpf()) as probes:
        for _ in range(3):
            layout = probes.layout()
            sleep(1.1)
        values = np.empty(layout.width)

        def tick() -> float:
            nonlocal values
            began_ns = process_time_ns()
            layout = probes.layout()
            if layout.width != len(values):
                values = np.empty(layout.width)
            probes.sample(values)
            return (process_time_ns() - began_ns) / 1e6

        paced_ms = []
        for _ in range(ticks):
            sleep(0.1)
            paced_ms.append(tick())
        warm_ms = [tick() for _ in range(10 * ticks)]
        jobs = sum("@" in block.entity for block in probes.layout().blocks)
    return {
        "jobs": jobs,
        "numbers": len(values),
        "paced_median_ms": round(median(paced_ms), 3),
        "paced_mean_ms": round(sum(paced_ms) / len(paced_ms), 3),
        "paced_worst_ms": round(max(paced_ms), 3),
        "warm_median_ms": round(median(warm_ms), 3),
    }


def main() -> None:
    """Measure all of it."""
    short = quick()
    trips, rounds = (5_000, 3) if short else (40_000, 9)
    os.sched_setaffinity(0, {0})
    progress("switches")
    switch = {
        name: _added_ns(sets, _switches_ns, times=trips, rounds=rounds)
        for name, sets in _SETS.items()
    }
    progress("system calls")
    calls = {
        "not counted": _added_ns(_SETS["syscalls"], _plain_call_ns, times=5 * trips, rounds=rounds),
        "counted": _added_ns(_SETS["syscalls"], _counted_call_ns, times=trips, rounds=rounds),
    }
    progress("programs")
    programs = _programs(trips)
    progress("readings")
    reading = _reading(20 if short else 100)
    results = {
        "switch": switch,
        "system_call": calls,
        "program": programs,
        "reading": reading,
        "share_of_a_core_at_100k_switches_per_s": round(switch["sched"]["added_ns"] * 1e-4, 4),
    }
    finish(
        "observe_ebpf",
        results,
        [
            bar("sched_switch, ns per run", programs["sched_switch"]["ns"], "<", 1000),
            bar("one reading with 20 jobs, ms", reading["paced_median_ms"], "<", 0.3),
            bar("jobs seen", reading["jobs"], ">=", _JOBS),
        ],
    )


if __name__ == "__main__":
    main()
