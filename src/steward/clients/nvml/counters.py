"""GPM: hardware counters of Hopper and later, as means between two samples."""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import byref, c_uint32, c_void_p

import numpy as np
from numpy.typing import NDArray

from steward.clients.nvml.library import LOST, NEVER, Library
from steward.clients.nvml.structs import GpmMetric, GpmMetricsGet

__all__ = ["GRAPHICS", "UNITS", "Counters"]

# 1.4 ms of processor time on an H200 (driver 580), where all others together take 0.1 ms.
GRAPHICS = {"gpm.graphics_util": 1}
UNITS = {
    "gpm.sm_util": 2,
    "gpm.sm_occupancy": 3,
    "gpm.integer_util": 4,
    "gpm.any_tensor_util": 5,
    "gpm.dfma_tensor_util": 6,
    "gpm.hmma_tensor_util": 7,
    "gpm.imma_tensor_util": 9,
    "gpm.dram_bw_util": 10,
    "gpm.fp64_util": 11,
    "gpm.fp32_util": 12,
    "gpm.fp16_util": 13,
    "gpm.pcie_tx_per_sec": 20,
    "gpm.pcie_rx_per_sec": 21,
    "gpm.nvlink_total_rx_per_sec": 60,
    "gpm.nvlink_total_tx_per_sec": 61,
}
_DTYPE = np.dtype(GpmMetric)


class Counters:
    """Some counters of one GPU, or of one of its instances. The first reading is unknown."""

    def __init__(
        self,
        library: Library,
        handle: c_void_p,
        metrics: Mapping[str, int],
        *,
        instance: int | None = None,
    ) -> None:
        self._library = library
        self._metrics = metrics
        self._samples = (c_void_p(), c_void_p())
        self._turn = 0
        self._primed = False
        self.names: tuple[str, ...] = ()
        self.code = 0
        for sample in self._samples:
            if library.call("nvmlGpmSampleAlloc", byref(sample)):
                self.close()
                return
        self._get = library.function("nvmlGpmMetricsGet")
        name = "nvmlGpmSampleGet" if instance is None else "nvmlGpmMigSampleGet"
        self._take = library.function(name)
        self._between = () if instance is None else (c_uint32(instance),)
        self._arguments = tuple((handle, *self._between, each) for each in self._samples)
        self._probe()

    def read(self, into: NDArray[np.float64], _now_s: float) -> int:
        """Take a sample and compare it with the one before; return the code of a lost GPU."""
        turn = self._turn
        code = self._take(*self._arguments[turn]) if self._take else 3
        if code:
            self._primed = False
            into[:] = np.nan
            return int(code) if code in LOST else 0
        if self._primed and self._get and not self._get(self._wanted[turn]):
            view = self._views[turn]
            into[:] = view["value"]
            codes = view["code"]
            if codes.any():
                into[codes != 0] = np.nan
        else:
            into[:] = np.nan
        self._primed, self._turn = True, 1 - turn
        return 0

    def close(self) -> None:
        """Free the driver's samples."""
        for sample in self._samples:
            if sample:
                self._library.call("nvmlGpmSampleFree", sample)
                sample.value = None

    def _probe(self) -> None:
        """Compare two samples to learn which counters this GPU has."""
        self._select(tuple(self._metrics))
        codes = [self._take(*each) if self._take else 3 for each in self._arguments]
        self.code = next((code for code in codes if code), 0)
        if self.code in NEVER:
            return self._select(())
        if not any(codes) and self._get and not self._get(self._wanted[1]):
            answers = self._views[1]["code"].tolist()
            names = zip(self._metrics, answers, strict=True)
            return self._select(tuple(name for name, code in names if code not in NEVER))
        return None

    def _select(self, names: tuple[str, ...]) -> None:
        self.names = names
        requests = []
        for turn in (0, 1):
            get = GpmMetricsGet(version=1, count=len(names))
            get.before, get.after = self._samples[1 - turn].value, self._samples[turn].value
            for place, name in enumerate(names):
                get.metrics[place].metric = self._metrics[name]
            requests.append(get)
        self._views = tuple(_view(get, len(names)) for get in requests)
        self._wanted = tuple(map(byref, requests))


def _view(get: GpmMetricsGet, count: int) -> NDArray[np.void]:
    places: NDArray[np.void] = np.frombuffer(
        memoryview(get), dtype=_DTYPE, count=count, offset=GpmMetricsGet.metrics.offset
    )
    return places
