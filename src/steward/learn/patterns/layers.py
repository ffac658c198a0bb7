"""Which layer of a machine a metric group speaks of, by its name."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["layer_of", "layers_of"]

_LAYERS = (  # the first that fits; link names before `gpu`, which NVLink metrics also have
    ("network", r"net|network|nvlink|pcie|rdma|ib|rx|tx|tcp|nccl|fabric|link"),
    ("storage", r"disk|disks|storage|block|nvme|fs|filesystem|io|sectors"),
    ("gpu", r"gpu|gpus|sm|tensor|dram|hbm|fb|vram|accelerator"),
    ("memory", r"mem|memory|ram|swap|numa|page|pages"),
    ("cpu", r"cpu|cpus|core|cores|ipc|instructions|stall|cache|branch|host|process"),
)
_WORD = re.compile(r"[A-Za-z]+")


def layer_of(group: str) -> str:
    """Return gpu, cpu, memory, network, storage, or other.

    >>> layer_of("GPU_mem_util"), layer_of("net.rx"), layer_of("MemAvailable")
    ('gpu', 'network', 'memory')
    """
    words = _WORD.findall(re.sub(r"([a-z])([A-Z])", r"\1 \2", group))
    for word in words:
        for layer, known in _LAYERS:
            if re.fullmatch(known, word.lower()):
                return layer
    return "other"


def layers_of(groups: Iterable[str]) -> tuple[str, ...]:
    """Return the layers of some groups, each once; with two or more, they cross layers."""
    return tuple(sorted({layer_of(group) for group in groups}))
