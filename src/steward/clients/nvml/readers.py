"""All numbers that are read at a tick: of each GPU, and of each slice of one."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_void_p
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from steward.clients.nvml.counters import GRAPHICS, UNITS, Counters
from steward.clients.nvml.devices import Slice, link_count
from steward.clients.nvml.fields import (
    FieldReader,
    fast_fields,
    rare_fields,
    seldom_fields,
    steady_fields,
)
from steward.clients.nvml.library import LOST, GpuLostError, Library, lost
from steward.clients.nvml.queries import FAST, RARE, SLICE, STEADY, Calls, ProcessCount

__all__ = ["DeviceReader", "DeviceReaders"]

STEADY_S = 0.9  # a little less than a second, so that a tick each second finds it due
RARE_S = 9.9
SELDOM_S = 29.9  # what a driver takes long to answer: `benchmarks/observe_h200.py calls`


class Part(Protocol):
    """Some values that are read together, into their places of a row."""

    names: tuple[str, ...]
    code: int  # what the first try answered

    def read(self, into: NDArray[np.float64], now_s: float, /) -> int: ...


class DeviceReader:
    """Reads one GPU, or one slice. What is read less often keeps its last value in between."""

    def __init__(self, library: Library, handle: c_void_p, *, of: int | Slice) -> None:
        self.of = of
        self._library = library
        self._counters: list[Counters] = []
        parts = self._slice(handle, of) if isinstance(of, Slice) else self._gpu(handle)
        for _, part in parts:
            if part.code in LOST:
                self.close()
                raise lost(self.gpu, library.error_text(part.code))
        parts = [(every_s, part) for every_s, part in parts if part.names]
        self.names = tuple(name for _, part in parts for name in part.names)
        self._values = np.full(len(self.names), np.nan)
        self._always: list[tuple[Part, NDArray[np.float64]]] = []
        self._sometimes: list[tuple[Part, NDArray[np.float64], float]] = []
        start = 0
        for every_s, part in parts:
            places = self._values[start : start + len(part.names)]
            start += len(part.names)
            if every_s:
                self._sometimes.append((part, places, every_s))
            else:
                self._always.append((part, places))
        self._due_s = [-np.inf] * len(self._sometimes)

    @property
    def gpu(self) -> int:
        """The index of the GPU."""
        return self.of.gpu if isinstance(self.of, Slice) else self.of

    def read(self, into: NDArray[np.float64], now_s: float, *, phase: float = 1.0) -> None:
        """Read what is due; raise `GpuLostError` when the GPU has gone.

        `phase` (0..1] shifts when the rare values are due next, so that GPUs take turns at them.
        """
        for part, places in self._always:
            if code := part.read(places, now_s):
                raise self._lost(code)
        for number, (part, places, every_s) in enumerate(self._sometimes):
            if now_s >= self._due_s[number]:
                first = self._due_s[number] == -np.inf
                self._due_s[number] = now_s + every_s * (phase if first else 1.0)
                if code := part.read(places, now_s):
                    raise self._lost(code)
        into[:] = self._values

    def close(self) -> None:
        """Free what the driver allocated."""
        for each in self._counters:
            each.close()

    def _lost(self, code: int) -> GpuLostError:
        return lost(self.gpu, self._library.error_text(code))

    def _gpu(self, handle: c_void_p) -> list[tuple[float, Part]]:
        library = self._library
        units, graphics = self._lent(handle)
        links = link_count(library, handle)
        return [
            (0.0, Calls(library, handle, FAST)),
            (0.0, FieldReader(library, handle, fast_fields())),
            (0.0, units),
            (STEADY_S, Calls(library, handle, STEADY)),
            (STEADY_S, FieldReader(library, handle, steady_fields(has_counters=bool(units.names)))),
            (STEADY_S, ProcessCount(library, handle)),
            (RARE_S, Calls(library, handle, RARE)),
            (RARE_S, FieldReader(library, handle, rare_fields(links))),
            (RARE_S, graphics),
            (SELDOM_S, FieldReader(library, handle, seldom_fields())),
        ]

    def _slice(self, handle: c_void_p, of: Slice) -> list[tuple[float, Part]]:
        parent = self._library.handle(of.gpu)
        units, graphics = self._lent(parent, instance=of.id)
        return [
            (0.0, units),
            (STEADY_S, Calls(self._library, handle, SLICE)),
            (STEADY_S, ProcessCount(self._library, handle)),
            (RARE_S, graphics),
        ]

    def _lent(self, handle: c_void_p, *, instance: int | None = None) -> list[Counters]:
        """Return the counters that are cheap to read and that which is not, each with samples."""
        self._counters = [
            Counters(self._library, handle, metrics, instance=instance)
            for metrics in (UNITS, GRAPHICS)
        ]
        return self._counters


class DeviceReaders:
    """Several meters in one row. A GPU that is lost is NaN and is left alone from then on."""

    def __init__(self, meters: Sequence[DeviceReader]) -> None:
        self.meters = tuple(meters)
        ends = np.cumsum([0, *(len(each.names) for each in meters)]).tolist()
        self.width = ends[-1]
        self.lost: dict[int, GpuLostError] = {}
        self._places = [slice(a, b) for a, b in pairwise(ends)]

    def read(self, into: NDArray[np.float64], now_s: float) -> None:
        """Read all of them once."""
        count = len(self.meters)
        for number, (meter, place) in enumerate(zip(self.meters, self._places, strict=True)):
            if meter.gpu in self.lost:  # some calls hang on a GPU that has fallen off the bus
                into[place] = np.nan
                continue
            try:
                meter.read(into[place], now_s, phase=(number + 1) / count)
            except GpuLostError as fault:
                self.lost[meter.gpu] = fault
                into[place] = np.nan

    def close(self) -> None:
        """Free what the driver allocated."""
        for meter in self.meters:
            meter.close()
