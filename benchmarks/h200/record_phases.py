"""Records what a job's GPU and host side look like in phases that a person can name.

Runs on a machine with an NVIDIA GPU and PyTorch (`python record_phases.py OUT.csv.gz`); needs
`pynvml` and nothing of steward. A child process goes through labelled phases; once a second the
parent samples NVML and, from /proc, the processor time and storage traffic of the child and all
its descendants: what a cgroup would say. Used to check the estimator `quiet-phases` on runs that
its thresholds were not chosen on (`benchmarks/quiet_phases.py`).
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

COLUMNS = (
    "t_s",
    "phase",
    "gpu.busy_share",
    "gpu.memory.used_bytes",
    "gpu.power_watts",
    "job.cpu_seconds",
    "job.disk.read_bytes",
    "job.disk.write_bytes",
)
TICKS = os.sysconf("SC_CLK_TCK")


# -- the job -----------------------------------------------------------------------------------


class Work:
    """A small model, and the things that jobs do around one."""

    def __init__(self, torch: ModuleType, folder: Path) -> None:
        self.torch = torch
        self.folder = folder
        self.count = 0
        layers = (torch.nn.Linear(8192, 8192) for _ in range(12))
        self.model = torch.nn.Sequential(*layers).cuda()
        self.batch = torch.randn(2048, 8192, device="cuda")
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=1e-6)
        self.shards = [folder / f"shard{index}.bin" for index in range(6)]
        for shard in self.shards:
            shard.write_bytes(os.urandom(2**28))

    def step(self) -> None:
        """Train on one batch."""
        self.optimiser.zero_grad()
        self.model(self.batch).square().mean().backward()
        self.optimiser.step()
        self.torch.cuda.synchronize()

    def save(self) -> None:
        """Write a checkpoint of three gigabytes, down to the disk."""
        self.torch.save(self.model.state_dict(), self.folder / "checkpoint.pt")
        with (self.folder / "checkpoint.pt").open("rb") as file:
            os.fsync(file.fileno())

    def load(self) -> None:
        """Read a shard from the disk, not from the page cache."""
        self.count += 1
        file = os.open(self.shards[self.count % len(self.shards)], os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        while os.read(file, 2**22):
            pass
        os.close(file)

    def decode(self) -> None:
        """Prepare inputs on the host."""
        data = self.torch.frombuffer(bytearray(os.urandom(2**24)), dtype=self.torch.uint8)
        self.torch.fft.rfft(data.float().view(64, -1))

    def starve(self) -> None:
        """Train, but wait for each batch."""
        self.decode()
        self.step()

    def compile(self) -> None:
        """Compile a model that was not compiled before."""
        self.count += 1
        width = 512 + 64 * self.count
        torch = self.torch
        torch.compiler.reset()
        net = torch.nn.Sequential(
            torch.nn.Linear(width, width), torch.nn.GELU(), torch.nn.LayerNorm(width)
        ).cuda()
        torch.compile(net)(torch.randn(8, width, device="cuda")).sum().backward()

    def spin(self) -> None:
        """Hang, busily."""
        end = time.time() + 1.0
        while time.time() < end:
            pass

    def heartbeat(self, stop: threading.Event) -> None:
        """Write a line of metrics every second, as experiment trackers do."""
        while not stop.wait(1.0):
            (self.folder / "heartbeat").write_text(json.dumps({"t": time.time(), "loss": 0.1}))

    def poll(self, stop: threading.Event) -> None:
        """Look at the device twenty times a second, as monitors inside jobs do."""
        while not stop.wait(0.05):
            self.torch.cuda.memory_allocated()


def job(marks: Path, folder: Path) -> None:
    """Go through the phases, each written down when it begins."""
    import torch  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - only the child

    def phase(name: str, seconds: float, work: Callable[[], None] | None = None) -> None:
        with marks.open("a") as file:
            file.write(json.dumps({"t": time.time(), "phase": name}) + "\n")
        end = time.time() + seconds
        while time.time() < end:
            if work is None:
                time.sleep(min(5.0, max(0.0, end - time.time())))
            else:
                work()

    stop = threading.Event()
    phase("start", 1)
    work = Work(torch, folder)
    phase("train", 40, work.step)
    phase("idle", 60)
    phase("checkpoint", 40, work.save)
    phase("idle", 40)
    phase("load from disk", 40, work.load)
    phase("decode on the host", 40, work.decode)
    phase("input-bound training", 30, work.starve)
    phase("compile", 90, work.compile)
    phase("idle", 40)
    threading.Thread(target=work.heartbeat, args=(stop,), daemon=True).start()
    phase("idle with a heartbeat", 40)
    threading.Thread(target=work.poll, args=(stop,), daemon=True).start()
    phase("idle with polling threads", 40)
    phase("hung in a spin loop", 30, work.spin)
    stop.set()
    phase("end", 1)


# -- the recorder ------------------------------------------------------------------------------


def family(root: int) -> list[int]:
    """Return a process and all its descendants."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        parent = int(text.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(int(stat.parent.name))
    found, queue = [], [root]
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue += children.get(pid, [])
    return found


class Totals:
    """Adds up counters of processes, also of those that have ended meanwhile."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[float, float, float]] = {}
        self._sum = [0.0, 0.0, 0.0]

    def read(self, pids: list[int]) -> list[float]:
        """Return processor seconds, bytes read and bytes written since the start."""
        for pid in pids:
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                lines = Path(f"/proc/{pid}/io").read_text().splitlines()
            except OSError:
                continue
            io = dict(line.split(": ") for line in lines)
            now = (
                (int(fields[11]) + int(fields[12])) / TICKS,
                float(io["read_bytes"]),
                float(io["write_bytes"]),
            )
            before = self._last.get(pid, (0.0, 0.0, 0.0))
            grown = (max(0.0, n - b) for n, b in zip(now, before, strict=True))
            self._sum = [total + each for total, each in zip(self._sum, grown, strict=True)]
            self._last[pid] = now
        return list(self._sum)


def record(out: Path) -> None:
    """Sample the child once a second until it ends."""
    import pynvml  # noqa: PLC0415 - only there where a GPU is

    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, gzip.open(out, "wt") as file:
        marks = Path(folder) / "marks.jsonl"
        marks.touch()
        child = subprocess.Popen([sys.executable, __file__, "--job", str(marks), folder])
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        totals = Totals()
        while child.poll() is None:
            began = time.time()
            lines = marks.read_text().splitlines()
            cpu, read, write = totals.read(family(child.pid))
            row: dict[str, Any] = {
                "t_s": round(began, 3),
                "phase": json.loads(lines[-1])["phase"] if lines else "import",
                "gpu.busy_share": pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100,
                "gpu.memory.used_bytes": pynvml.nvmlDeviceGetMemoryInfo(gpu).used,
                "gpu.power_watts": pynvml.nvmlDeviceGetPowerUsage(gpu) / 1000,
                "job.cpu_seconds": round(cpu, 2),
                "job.disk.read_bytes": read,
                "job.disk.write_bytes": write,
            }
            writer.writerow(row)
            time.sleep(max(0.0, 1.0 - (time.time() - began)))
        if child.returncode:
            sys.exit(f"the job failed with {child.returncode}")


if __name__ == "__main__":
    if sys.argv[1] == "--job":
        job(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        record(Path(sys.argv[1]))
