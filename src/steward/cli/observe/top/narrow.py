"""Takes of a sampler only what is shown: what nobody sees need not be worked out every second."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from steward.model.event import Availability, Observation
from steward.model.layout import Block, Layout
from steward.model.metrics import aliases_from
from steward.ports import Sampler

__all__ = ["SHOWN", "Narrow"]

SHOWN = frozenset(
    {
        "gpu.busy_share",
        "gpu.dram.active_share",
        "gpu.memory.limit_bytes",
        "gpu.memory.used_bytes",
        "gpu.power.limit_watts",
        "gpu.power_watts",
        "gpu.sm.active_share",
        "gpu.temperature_celsius",
        "gpu.tensor.active_share",
        "gpu.throttle_bits",
        "host.cpu.busy_share",
        "host.load_1m",
        "host.memory.limit_bytes",
        "host.memory.used_bytes",
        "host.pressure.cpu.some_share",
        "host.pressure.io.some_share",
        "host.pressure.memory.some_share",
        "job.cpu.busy_cores",
        "job.memory.charged_bytes",
        "job.memory.used_bytes",
    }
)


class Narrow:
    """A sampler of which only some metrics are kept; everything else is as it was."""

    def __init__(self, whole: Sampler, *, metrics: Collection[str] = SHOWN) -> None:
        self.name = whole.name
        self.vocabulary = whole.vocabulary
        self._whole = whole
        self._wanted = {
            name
            for name, (metric, _) in aliases_from(whole.vocabulary).items()
            if metric.name in metrics or metric.rate in metrics
        }
        self._seen = Layout(blocks=())
        self._layout = Layout(blocks=())
        self._row = np.empty(0)
        self._places = np.empty(0, np.int64)

    def available(self) -> Availability:
        return self._whole.available()

    def layout(self) -> Layout:
        whole = self._whole.layout()
        if whole is not self._seen:
            self._seen, self._row = whole, np.empty(whole.width)
            self._layout, self._places = self._narrowed(whole)
        return self._layout

    def sample(self, into: NDArray[np.float64]) -> None:
        self._row.fill(np.nan)
        self._whole.sample(self._row)
        np.take(self._row, self._places, out=into)

    def collect(self, t_s: float) -> Observation:
        return self._whole.collect(t_s)

    def close(self) -> None:
        self._whole.close()

    def _narrowed(self, whole: Layout) -> tuple[Layout, NDArray[np.int64]]:
        blocks, places, at = [], [], 0
        for block in whole.blocks:
            kept = [i for i, name in enumerate(block.names) if name in self._wanted]
            if kept:
                names = tuple(block.names[i] for i in kept)
                blocks.append(Block(entity=block.entity, names=names))
                places += [at + i for i in kept]
            at += len(block.names)
        return Layout(blocks=tuple(blocks)), np.array(places, np.int64)
