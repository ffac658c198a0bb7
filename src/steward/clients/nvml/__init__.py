"""Reads GPUs through the NVIDIA driver, in NVML's names and units.

Belongs here: calls of NVML and what their codes mean. Does not: names of nodes or jobs, frames
(nothing here may need more than numpy, so that it can be measured on a bare GPU machine).
The functions of the library are called through pointers with prepared arguments: ten times a second
leaves no time to build an object per value. nvidia-ml-py finds the library.
"""

from steward.clients.nvml.devices import SWITCH, Device, Slice
from steward.clients.nvml.driver import Driver
from steward.clients.nvml.library import DriverMissingError, GpuLostError, Library
from steward.clients.nvml.power_limits import (
    PowerLimitControl,
    PowerLimitRefusedError,
    PowerLimits,
)
from steward.clients.nvml.processes import DriverProcess
from steward.clients.nvml.readers import DeviceReader, DeviceReaders
from steward.clients.nvml.registry import GpuRegistry, SamplingPlan, shared_registry
from steward.clients.nvml.xids import Xid

__all__ = [
    "SWITCH",
    "Device",
    "DeviceReader",
    "DeviceReaders",
    "Driver",
    "DriverMissingError",
    "DriverProcess",
    "GpuLostError",
    "GpuRegistry",
    "Library",
    "PowerLimitControl",
    "PowerLimitRefusedError",
    "PowerLimits",
    "SamplingPlan",
    "Slice",
    "Xid",
    "shared_registry",
]
