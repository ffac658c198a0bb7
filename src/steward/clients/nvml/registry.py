"""The GPUs of a machine over time: they come, fall off the bus, come back, and keep their numbers.

NVML numbers GPUs anew whenever it is started: without the third of four, the fourth becomes the
third. Here a number belongs to the GPU (by UUID) that had it first, and everything that names GPUs
uses it: samples, processes, Xids of NVML and Xids of the kernel log, which have bus ids only.

NVML counts how often it was initialised and sees new GPUs only after the last shutdown. So all
parts of a process share one registry (`shared_registry`), which initialises it once.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import count

import numpy as np
from numpy.typing import NDArray

from steward.clients.nvml.devices import Device, Slice, short_bus_id
from steward.clients.nvml.driver import Driver
from steward.clients.nvml.library import DriverMissingError, GpuLostError
from steward.clients.nvml.processes import DriverProcess
from steward.clients.nvml.readers import DeviceReader, DeviceReaders
from steward.clients.nvml.xids import Xid
from steward.errors import StewardError

__all__ = ["GpuRegistry", "SamplingPlan", "shared_registry"]

RETRY_S = (30.0, 600.0)  # starting NVML again costs the others a moment, so ever more rarely
WAIT_S = 0.05  # for NVML to be started again, at a tick
MAX_AGE_S = 5.0  # of what is known, where a caller can do with what another one has found


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingPlan:
    """What is read at a tick, until GPUs or slices come or go. Keys are NVML's indices."""

    numbers: Mapping[int, int] = field(default_factory=dict)
    slices: Mapping[int, tuple[Slice, ...]] = field(default_factory=dict)
    plugged: tuple[str, ...] = ()
    meters: DeviceReaders = field(default_factory=lambda: DeviceReaders(()))


class GpuRegistry:
    """All GPUs that were ever seen here, by number, and why those that are lost are lost."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.devices: dict[int, Device] = {}
        self.lost: dict[int, str] = {}
        self._lock = threading.Lock()  # a tick must not use what a restart has made void
        self._looking = threading.Lock()  # the first tick and the first turn may look at once
        self._plan = SamplingPlan()
        self._next: SamplingPlan | None = None
        self._void = False  # the meters of the plan cannot be read any more
        self._retry_at_s = np.inf
        self._retry_s = RETRY_S[0]
        self._by_bus: dict[str, int] = {}  # number of the GPU that was last at a place on the bus
        self._refreshed_s = -np.inf
        self._users = 0

    def plan(self) -> SamplingPlan:
        """Return what is read from now on. Only this takes up a new plan, so that widths agree."""
        if self._next is not None:
            with self._lock:
                old, self._plan, self._next = self._plan, self._next, None
                if not self._void:
                    old.meters.close()
                self._void = False
        return self._plan

    def read(self, into: NDArray[np.float64]) -> None:
        """Read all numbers of the plan once."""
        if not self._lock.acquire(timeout=WAIT_S):
            raise StewardError("NVML is being started again", hint="the next tick will read it")
        try:
            if self._void:
                into[:] = np.nan
            else:
                self._plan.meters.read(into, self.driver.clock())
        finally:
            self._lock.release()

    # -- users of it -----------------------------------------------------------------------------

    def acquire(self) -> GpuRegistry:
        """Count one more user and return the registry itself."""
        with self._looking:
            self._users += 1
        return self

    def release(self) -> None:
        """Count one user less; after the last one NVML is shut down until it is used again."""
        with self._looking:
            self._users -= 1
            if self._users <= 0:
                self._shut_down()

    # -- what is there ---------------------------------------------------------------------------

    def refresh(self, *, max_age_s: float = 0.0) -> None:
        """Look which GPUs came, went or came back, unless that was done `max_age_s` ago.

        Raises `DriverMissingError` where no driver answers.
        """
        with self._looking:
            if self.driver.clock() - self._refreshed_s < max_age_s:
                return
            restarted = self._restart_if_due()
            try:
                found = self.driver.count()
            except DriverMissingError:
                self._drop()
                raise
            indices = range(found)
            there = {i: parts for i in indices if (parts := self._slices(i)) is not None}
            if restarted or self._changed(there):
                self._build(there)
            self._mark_lost(set(indices) - set(there))
            self._refreshed_s = self.driver.clock()

    def number_at(self, bus_id: str) -> int | None:
        """Return the number of the GPU that is, or was last, at a place on the PCI bus."""
        place = short_bus_id(bus_id)
        if place not in self._by_bus:
            try:
                self.refresh(max_age_s=MAX_AGE_S)
            except DriverMissingError:
                self._number_plugged()
        return self._by_bus.get(place)

    def processes(self, number: int) -> tuple[DriverProcess, ...]:
        """Return the processes on one GPU, or raise `GpuLostError`."""
        with self._looking:
            index = self.indices().get(number)
            if index is None:
                raise GpuLostError(f"GPU {number} does not answer")
            return self.driver.processes(index)

    def pids(self) -> dict[int, tuple[int, ...]]:
        """Return the processes with a context on each GPU that answers, by its number.

        Raises `DriverMissingError` where no driver answers.
        """
        self.refresh(max_age_s=MAX_AGE_S)
        with self._looking:
            return {number: self._pids(index) for number, index in self.indices().items()}

    def xids(self) -> tuple[tuple[int, Xid], ...]:
        """Return the errors that were queued since the last call, each with its GPU's number."""
        with self._looking:
            return tuple((self.number_of(xid.gpu), xid) for xid in self.driver.xids())

    def number_of(self, index: int) -> int:
        """Return the number of what NVML calls GPU `index` now."""
        return self._newest.numbers.get(index, index)

    def indices(self) -> Mapping[int, int]:
        """Return NVML's index of each number that answers."""
        return {
            number: index
            for index, number in self._newest.numbers.items()
            if number not in self.lost
        }

    @property
    def _newest(self) -> SamplingPlan:
        return self._plan if self._next is None else self._next

    def _restart_if_due(self) -> bool:
        """Start NVML again when the kernel has other GPUs, or to find one that was lost."""
        plan, now_s = self._newest, self.driver.clock()
        moved = bool(plan.numbers) and self.driver.plugged() != plan.plugged
        if not moved and now_s < self._retry_at_s:
            return False
        with self._lock:
            if not self._void:
                self._plan.meters.close()
            if self._next is not None:
                self._next.meters.close()
            self._next, self._void = None, True
            self.driver.close()
        if not moved:
            self._retry_s = min(RETRY_S[1], self._retry_s * 2)
        self._retry_at_s = now_s + self._retry_s
        return True

    def _slices(self, index: int) -> tuple[Slice, ...] | None:
        try:
            if index in self._newest.meters.lost:
                self.driver.device(index)  # raises while it is still lost
            return self.driver.slices(index)
        except GpuLostError:
            return None

    def _changed(self, there: Mapping[int, tuple[Slice, ...]]) -> bool:
        plan = self._newest
        return any(i in plan.meters.lost or plan.slices.get(i) != s for i, s in there.items())

    def _build(self, there: Mapping[int, tuple[Slice, ...]]) -> None:
        numbers: dict[int, int] = {}
        meters: list[DeviceReader] = []
        for index in there:
            try:
                device = self.driver.device(index)
                made = self.driver.meters(index)
            except GpuLostError:
                continue  # between two calls; the next turn reads it again
            number = self._number(device, taken=set(numbers.values()))
            numbers[index], self.devices[number] = number, device
            self._by_bus[short_bus_id(device.bus_id)] = number
            meters += made
        plan = SamplingPlan(
            numbers=numbers,
            slices={index: there[index] for index in numbers},
            plugged=self.driver.plugged(),
            meters=DeviceReaders(meters),
        )
        with self._lock:
            if self._next is not None:
                self._next.meters.close()
            self._next = plan
        self.driver.listen(numbers)

    def _number(self, device: Device, *, taken: set[int]) -> int:
        """Return the number that this GPU had, else its index, else the first that is free."""
        known = {each.uuid: number for number, each in self.devices.items() if each.uuid}
        if device.uuid in known:
            return known[device.uuid]
        wanted = self._by_bus.get(short_bus_id(device.bus_id), device.index)
        while wanted in taken or wanted in self.devices:
            wanted += 1
        return wanted

    def _mark_lost(self, silent: set[int]) -> None:
        plan = self._newest
        why = {plan.numbers.get(i, i): f"GPU {i} does not answer" for i in silent}
        why |= {plan.numbers[i]: str(fault) for i, fault in plan.meters.lost.items()}
        there = set(plan.numbers.values())
        why |= {n: f"GPU {n} is not on the bus any more" for n in self.devices if n not in there}
        if why and not self.lost:
            self._retry_s = RETRY_S[0]
            self._retry_at_s = self.driver.clock() + self._retry_s
        elif not why:
            self._retry_at_s = np.inf
        self.lost = why

    def _number_plugged(self) -> None:
        """Assign numbers in the order of the kernel's list, as NVML does, while it is missing."""
        with self._looking:
            for place in map(short_bus_id, self.driver.plugged()):
                free = next(n for n in count() if n not in {*self._by_bus.values(), *self.devices})
                self._by_bus.setdefault(place, free)

    def _pids(self, index: int) -> tuple[int, ...]:
        try:
            return self.driver.pids(index)
        except GpuLostError:
            return ()

    def _shut_down(self) -> None:
        with self._lock:
            for plan in (self._plan if not self._void else None, self._next):
                if plan is not None:
                    plan.meters.close()
            self._next, self._void = SamplingPlan(), True
            self._refreshed_s = -np.inf
            self.driver.close()

    def _drop(self) -> None:
        """Drop what cannot be read without a driver; numbers stay with their GPUs."""
        with self._lock:
            if self._next is not None:
                self._next.meters.close()
            self._next = SamplingPlan()


@cache
def shared_registry() -> GpuRegistry:
    """Return the registry of this process; users call `acquire` and `release`."""
    return GpuRegistry(Driver())
