"""The structs of NVML that we fill or read, as its C header has them."""

from __future__ import annotations

from ctypes import Structure, c_char, c_double, c_int64, c_uint32, c_uint64, c_void_p

__all__ = [
    "MEMORY_V2",
    "TEMPERATURE_V1",
    "EventFound",
    "FieldValue",
    "GpmMetric",
    "GpmMetricsGet",
    "GpmSupport",
    "MemoryV1",
    "MemoryV2",
    "PciAddress",
    "ProcessSample",
    "RunningProcess",
    "Temperature",
    "Utilization",
]

MEMORY_V2 = 0x02000028  # the version and the size of the struct, as nvml.h makes them
TEMPERATURE_V1 = 0x0100000C


class Utilization(Structure):
    """Percentages of the last sampling period."""

    _fields_ = (("gpu", c_uint32), ("memory", c_uint32))


class MemoryV1(Structure):
    """Device memory before driver 510: what the driver keeps for itself counts as used."""

    _fields_ = (("total", c_uint64), ("free", c_uint64), ("used", c_uint64))


class MemoryV2(Structure):
    """Device memory as nvidia-smi shows it."""

    _fields_ = (
        ("version", c_uint32),
        ("total", c_uint64),
        ("reserved", c_uint64),
        ("free", c_uint64),
        ("used", c_uint64),
    )


class Temperature(Structure):
    """A temperature as newer drivers return it; sensor 0 is the die."""

    _fields_ = (("version", c_uint32), ("sensor", c_uint32), ("celsius", c_uint32))


class FieldValue(Structure):
    """One field of a batch. `value` is a union; `kind` is its type."""

    _fields_ = (
        ("field", c_uint32),
        ("scope", c_uint32),
        ("timestamp_us", c_int64),
        ("latency_us", c_int64),
        ("kind", c_uint32),
        ("code", c_uint32),
        ("value", c_uint64),
    )


class GpmMetric(Structure):
    """One hardware counter, as the mean between two samples."""

    _fields_ = (
        ("metric", c_uint32),
        ("code", c_uint32),
        ("value", c_double),
        ("names", c_uint64 * 3),  # pointers to texts that are not read
    )


class GpmMetricsGet(Structure):
    """Which counters are wanted between which samples. 98 places: those of the first header."""

    _fields_ = (
        ("version", c_uint32),
        ("count", c_uint32),
        ("before", c_void_p),
        ("after", c_void_p),
        ("metrics", GpmMetric * 98),
    )


class GpmSupport(Structure):
    """Whether a GPU has these counters."""

    _fields_ = (("version", c_uint32), ("supported", c_uint32))


class PciAddress(Structure):
    """Where a device is on the bus."""

    _fields_ = (
        ("bus_id_legacy", c_char * 16),
        ("domain", c_uint32),
        ("bus", c_uint32),
        ("device", c_uint32),
        ("pci_device_id", c_uint32),
        ("pci_subsystem_id", c_uint32),
        ("bus_id", c_char * 32),
    )


class RunningProcess(Structure):
    """A process with a context on a GPU. Ids of instances are all ones outside of MIG."""

    _fields_ = (
        ("pid", c_uint32),
        ("memory_bytes", c_uint64),
        ("gpu_instance", c_uint32),
        ("compute_instance", c_uint32),
    )


class ProcessSample(Structure):
    """What a process used of a GPU in one of the driver's own periods."""

    _fields_ = (
        ("pid", c_uint32),
        ("timestamp_us", c_uint64),
        ("sm_percent", c_uint32),
        ("memory_percent", c_uint32),
        ("encoder_percent", c_uint32),
        ("decoder_percent", c_uint32),
    )


class EventFound(Structure):
    """One event that the driver had queued."""

    _fields_ = (
        ("device", c_void_p),
        ("kind", c_uint64),
        ("detail", c_uint64),
        ("gpu_instance", c_uint32),
        ("compute_instance", c_uint32),
    )
