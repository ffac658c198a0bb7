"""Says which GPU is at which place on the PCI bus, as the NVIDIA driver tells without NVML."""

from __future__ import annotations

from pathlib import Path

__all__ = ["gpu_indices", "short_bus_id"]


def short_bus_id(bus_id: str) -> str:
    """Write a bus id as the driver's messages do: domain, bus and device, without function.

    >>> short_bus_id("00000000:3B:00.0"), short_bus_id("0000:3b:00")
    ('0000:3b:00', '0000:3b:00')
    """
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain[-4:]}:{rest.partition('.')[0]}"


def gpu_indices(folder: Path = Path("/proc/driver/nvidia/gpus")) -> dict[str, int]:
    """Return the index of each GPU by its short bus id: NVML counts them in this order."""
    try:
        names = sorted(entry.name.lower() for entry in folder.iterdir())
    except OSError:
        return {}
    return {short_bus_id(name): index for index, name in enumerate(names)}
