"""Known work for a GPU: training, with known troubles too, and matrix products by the clock."""

from __future__ import annotations

import importlib
import os
import queue
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["KINDS", "Checkpointing", "Duty", "Starved", "Training"]


class Training:
    """A step of training with PyTorch. `small` launches many short kernels: bound by launches."""

    def __init__(self, *, small: bool = False, full: bool = False) -> None:
        self.torch: Any = importlib.import_module("torch")
        torch = self.torch
        kind = torch.float32 if full else torch.bfloat16  # float32 without TF32: no tensor cores
        width, depth, batch = (512, 32, 64) if small else (8192, 8, 1024 if full else 4096)
        layers = [
            layer
            for _ in range(depth)
            for layer in (torch.nn.Linear(width, width), torch.nn.GELU())
        ]
        self.model = torch.nn.Sequential(*layers).cuda().to(kind)
        self.batch = torch.randn(batch, width, device="cuda", dtype=kind)
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=1e-6)

    def step(self) -> None:
        """Train on one batch, without waiting for it."""
        self.optimiser.zero_grad(set_to_none=True)
        self.model(self.batch).square().mean().backward()
        self.optimiser.step()

    def run(self, seconds: float) -> tuple[int, float]:
        """Train for so long; return the steps and the seconds that they took."""
        self.torch.cuda.synchronize()
        began = time.perf_counter()
        steps = 0
        while time.perf_counter() - began < seconds:
            for _ in range(4):  # a few at a time, so that the GPU has work while the host waits
                self.step()
            steps += 4
            self.torch.cuda.synchronize()
        return steps, time.perf_counter() - began

    def marks(self, seconds: float) -> list[float]:
        """Train for so long; return when each step began, and when the last one ended."""
        self.torch.cuda.synchronize()
        marks = [time.time()]
        while marks[-1] < marks[0] + seconds:
            self.step()
            self.torch.cuda.synchronize()
            marks.append(time.time())
        return marks


class Starved(Training):
    """Training that waits for its loader, which waits for something else."""

    def __init__(self, every_s: float = 0.12) -> None:
        super().__init__()
        self._every_s = every_s
        self._loaded: queue.Queue[Any] = queue.Queue(maxsize=2)

    def run(self, seconds: float) -> tuple[int, float]:
        """Train for so long, with a loader beside it."""
        over = threading.Event()
        loader = threading.Thread(target=self._load, args=(self.batch.cpu(), over))
        loader.start()
        try:
            return super().run(seconds)
        finally:
            over.set()
            loader.join()

    def step(self) -> None:
        """Wait for a batch, and train on it."""
        self.batch.copy_(self._loaded.get())
        super().step()

    def _load(self, batch: Any, over: threading.Event) -> None:  # noqa: ANN401 - a tensor
        while not over.wait(self._every_s):
            loaded = batch.clone()
            while not over.is_set():
                try:
                    self._loaded.put(loaded, timeout=self._every_s)
                    break
                except queue.Full:
                    continue


class Checkpointing(Training):
    """Training that stops to write a checkpoint, down to the disk."""

    def __init__(self, every_s: float = 20.0) -> None:
        super().__init__()
        self._every_s = every_s
        self._saved_s = time.perf_counter()
        self.stalls: list[tuple[float, float]] = []  # began at, took

    def step(self) -> None:
        """Train on one batch; write a checkpoint if it is time."""
        super().step()
        if time.perf_counter() - self._saved_s < self._every_s:
            return
        began_s = time.time()
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            file = Path(folder) / "checkpoint.pt"
            self.torch.save(self.model.state_dict(), file)
            with file.open("rb") as written:
                os.fsync(written.fileno())
        self._saved_s = time.perf_counter()
        self.stalls.append((began_s, time.time() - began_s))


KINDS: dict[str, Callable[[], Training]] = {
    "compute-bound": Training,
    "launch-bound": lambda: Training(small=True),
    "float32 without tensor cores": lambda: Training(full=True),
    "starved by its loader": Starved,
    "stalled by checkpoints": Checkpointing,
}


class Duty:
    """Matrix products that fill a known share of each period, measured by CUDA events."""

    def __init__(self, period_s: float = 0.2) -> None:
        self.torch: Any = importlib.import_module("torch")
        self.period_s = period_s
        make = {"device": "cuda", "dtype": self.torch.bfloat16}
        self.a = self.torch.randn(8192, 8192, **make)
        self.b = self.torch.randn(8192, 8192, **make)
        self.out = self.torch.empty_like(self.a)
        self._products(50)
        self.one_s = self._products(200) / 200

    def run(self, share: float, seconds: float) -> float:
        """Work for `share` of each period; return the share that CUDA events measured."""
        count = max(1, round(share * self.period_s / self.one_s))
        began = time.perf_counter()
        busy_s, periods = 0.0, 0
        while time.perf_counter() - began < seconds:
            busy_s += self._products(count)
            periods += 1
            rest_s = began + periods * self.period_s - time.perf_counter()
            if rest_s > 0 and share < 1:
                time.sleep(rest_s)
        return busy_s / (time.perf_counter() - began)

    def _products(self, count: int) -> float:
        cuda = self.torch.cuda
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        start.record()
        for _ in range(count):
            self.torch.mm(self.a, self.b, out=self.out)
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1000
