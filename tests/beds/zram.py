"""A swap area on zram: a real slow tier, set up and taken down again. Needs root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONTROL = Path("/sys/class/zram-control")


def missing() -> str:
    """Return why no zram swap can be set up here, or an empty text."""
    if os.geteuid() != 0:
        return "only root may add swap"
    if not (CONTROL / "hot_add").exists():
        return "this kernel has no zram"
    return ""


@contextmanager
def zram_swap(size_bytes: int) -> Iterator[Path]:
    """Add a zram device as swap, and remove it at the end. Other swap is left alone."""
    number = (CONTROL / "hot_add").read_text(encoding="ascii").strip()
    device = Path("/dev") / f"zram{number}"
    try:
        Path(f"/sys/block/zram{number}/disksize").write_text(str(size_bytes), encoding="ascii")
        subprocess.run(["mkswap", str(device)], check=True, capture_output=True)
        subprocess.run(["swapon", "-p", "100", str(device)], check=True, capture_output=True)
        try:
            yield device
        finally:
            subprocess.run(["swapoff", str(device)], check=True, capture_output=True)
    finally:
        Path(f"/sys/block/zram{number}/reset").write_text("1", encoding="ascii")
        (CONTROL / "hot_remove").write_text(number, encoding="ascii")
