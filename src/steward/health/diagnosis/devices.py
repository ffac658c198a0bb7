"""What a diagnosis tests: a processor by numpy, or devices by torch. Each finds its own errors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["PATTERNS", "Device", "NumpyDevice", "TorchDevice", "torch_devices"]

MEMINFO = Path("/proc/meminfo")
PATTERNS = (0x00000000, 0xFFFFFFFF, 0x55555555, 0xAAAAAAAA)
CHUNK_BYTES = 256 << 20
_SMALL = 8  # values are whole numbers below it: products of floats are exact then
_COLUMNS = 8  # of a product that are computed again on the host


class Device(Protocol):
    """One thing that computes and remembers."""

    @property
    def name(self) -> str: ...

    def product(self, size: int, rounds: int) -> tuple[int, float]:
        """Multiply matrices; return how many values are wrong, and products of numbers a second."""
        ...

    def memory(self, share: float, most_bytes: int) -> tuple[int, float, float]:
        """Write patterns and read them; return wrong words, bytes tested, bytes a second."""
        ...

    def copy_to(self, other: Device, size_bytes: int) -> tuple[int, float]:
        """Copy to another device; return how many words differ, and bytes a second."""
        ...


class NumpyDevice:
    """The processor and the memory of the host."""

    name = "host"

    def product(self, size: int, rounds: int) -> tuple[int, float]:
        """Multiply matrices of whole numbers, whose product is exact."""
        rng = np.random.default_rng(7)
        a = rng.integers(-_SMALL, _SMALL, (size, size)).astype(np.float32)
        b = rng.integers(-_SMALL, _SMALL, (size, size)).astype(np.float32)
        began_s = time.perf_counter()
        first = self._multiply(a, b)
        wrong = sum(int(np.count_nonzero(self._multiply(a, b) != first)) for _ in range(rounds - 1))
        took_s = time.perf_counter() - began_s
        return wrong + wrong_columns(a, b, first), rounds * 2.0 * size**3 / took_s

    def memory(self, share: float, most_bytes: int) -> tuple[int, float, float]:
        """Write patterns into a part of the memory that is free."""
        words = int(min(share * _free_bytes(), most_bytes)) // 4
        began_s = time.perf_counter()
        block = np.empty(words, np.uint32)
        wrong = 0
        for pattern in PATTERNS:
            block[:] = pattern
            self._disturb(block)
            wrong += int(np.count_nonzero(block != pattern))
        address = np.arange(words, dtype=np.uint32)
        block[:] = address
        wrong += int(np.count_nonzero(block != address))
        passes = 2 * (len(PATTERNS) + 1)
        return wrong, 4.0 * words, passes * 4.0 * words / (time.perf_counter() - began_s)

    def copy_to(self, other: Device, size_bytes: int) -> tuple[int, float]:
        """Copy within the host's memory."""
        del other
        source = np.random.default_rng(11).integers(0, 2**31, size_bytes // 4, dtype=np.int32)
        target = np.empty_like(source)
        began_s = time.perf_counter()
        target[:] = source
        took_s = max(1e-9, time.perf_counter() - began_s)
        return int(np.count_nonzero(source != target)), size_bytes / took_s

    def _multiply(self, a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
        return a @ b

    def _disturb(self, block: NDArray[np.uint32]) -> None:
        """Do nothing: tests of the test break memory here."""


class TorchDevice:
    """One device of torch: a GPU, or the processor."""

    def __init__(self, torch: Any, name: str) -> None:  # noqa: ANN401 - torch is optional
        self._torch = torch
        self.name = name

    def product(self, size: int, rounds: int) -> tuple[int, float]:
        """Multiply in single precision (exact), and twice in half precision (the same bits)."""
        torch = self._torch
        made = torch.Generator(device="cpu").manual_seed(7)
        a, b = (
            torch.randint(-_SMALL, _SMALL, (size, size), generator=made).float().to(self.name)
            for _ in range(2)
        )
        torch.backends.cuda.matmul.allow_tf32 = False
        began_s = self._now_s()
        first = a @ b
        wrong = sum(int((a @ b != first).sum()) for _ in range(rounds - 1))
        took_s = self._now_s() - began_s
        half = a.bfloat16() @ b.bfloat16()
        wrong += int((a.bfloat16() @ b.bfloat16() != half).sum())
        on_host = [each.cpu().numpy() for each in (a, b, first)]
        return wrong + wrong_columns(*on_host), rounds * 2.0 * size**3 / took_s

    def memory(self, share: float, most_bytes: int) -> tuple[int, float, float]:
        """Fill most of what is free, so that the patterns are in different places."""
        torch = self._torch
        left = int(min(share * self._free_bytes(), most_bytes))
        began_s, blocks = self._now_s(), []
        while left >= 4:
            words = min(left, CHUNK_BYTES) // 4
            blocks.append(torch.empty(words, dtype=torch.int32, device=self.name))
            left -= words * 4
        wrong = sum(self._pattern_errors(blocks, pattern) for pattern in PATTERNS)
        for place, block in enumerate(blocks):
            torch.arange(place, place + len(block), dtype=torch.int32, out=block)
        for place, block in enumerate(blocks):
            kept = torch.arange(place, place + len(block), dtype=torch.int32, device=self.name)
            wrong += int((block != kept).sum())
        tested = 4.0 * sum(len(block) for block in blocks)
        return wrong, tested, 2 * (len(PATTERNS) + 1) * tested / (self._now_s() - began_s)

    def copy_to(self, other: Device, size_bytes: int) -> tuple[int, float]:
        """Copy to another device, and compare there."""
        torch = self._torch
        made = torch.Generator(device="cpu").manual_seed(11)
        source = torch.randint(0, 2**31 - 1, (size_bytes // 4,), generator=made, dtype=torch.int32)
        here = source.to(self.name)
        there = torch.empty_like(here, device=other.name)
        there.copy_(here)  # the first sets up the way
        began_s = self._now_s()
        there.copy_(here)
        took_s = max(1e-9, self._now_s() - began_s)
        return int((there.cpu() != source).sum()), size_bytes / took_s

    def _pattern_errors(self, blocks: list[Any], pattern: int) -> int:
        signed = pattern - (1 << 32) if pattern >= 1 << 31 else pattern
        for block in blocks:
            block.fill_(signed)
        return sum(int((block != signed).sum()) for block in blocks)

    def _free_bytes(self) -> float:
        if self.name.startswith("cuda"):
            return float(self._torch.cuda.mem_get_info(self.name)[0])
        return _free_bytes()

    def _now_s(self) -> float:
        """Return the time when all that was begun has ended."""
        if self.name.startswith("cuda"):
            self._torch.cuda.synchronize()
        return time.perf_counter()


def torch_devices(torch: Any, *, gpus: bool) -> Iterator[TorchDevice]:  # noqa: ANN401 - as above
    """Yield all GPUs that torch sees, or the processor."""
    if not gpus:
        yield TorchDevice(torch, "cpu")
        return
    for place in range(torch.cuda.device_count()):
        yield TorchDevice(torch, f"cuda:{place}")


def wrong_columns(
    a: NDArray[np.float32], b: NDArray[np.float32], product: NDArray[np.float32]
) -> int:
    """Compute some columns of a product again, in double precision; return how much differs."""
    chosen = np.linspace(0, b.shape[1] - 1, min(_COLUMNS, b.shape[1])).astype(int)
    true = a.astype(np.float64) @ b[:, chosen].astype(np.float64)
    return int(np.count_nonzero(true != product[:, chosen]))


def _free_bytes() -> float:
    """Return how much memory of the host is free for programs."""
    try:
        text = MEMINFO.read_text(encoding="ascii")
    except OSError:
        return float(CHUNK_BYTES)
    found = [line for line in text.splitlines() if line.startswith("MemAvailable:")]
    return float(found[0].split()[1]) * 1024.0 if found else float(CHUNK_BYTES)
