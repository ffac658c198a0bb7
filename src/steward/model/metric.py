"""The one table of metric names: ours, and what everybody else calls the same thing.

Our names end in their base unit. `canonical = raw * scale` for each alias. A counter only ever
grows; `observe` turns it into the rate named beside it and stores the rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from steward.errors import unknown_name

__all__ = [
    "CANONICAL",
    "METRICS",
    "VOCABULARIES",
    "Alias",
    "Metric",
    "MetricKind",
    "aliases_from",
    "metric",
]

CANONICAL = "canonical"
MIB = float(2**20)


class MetricKind(Enum):
    """A gauge is a level now; a counter only grows, until its process restarts."""

    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True)
class Alias:
    """What one vocabulary calls a metric. `field_id` is DCGM's, which outlives its names."""

    vocabulary: str
    name: str
    scale: float = 1.0
    field_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One thing that can be measured."""

    name: str
    unit: str
    of: str  # the kind of entity: gpu, share, node, job
    meaning: str
    kind: MetricKind = MetricKind.GAUGE
    rate: str = ""  # the metric that a counter becomes
    aliases: tuple[Alias, ...] = ()


def _dcgm(field_id: int, *names: str, scale: float = 1.0) -> tuple[Alias, ...]:
    return tuple(Alias("dcgm", f"DCGM_FI_{name}", scale, field_id) for name in names)


def _nvml(name: str, scale: float = 1.0) -> Alias:
    return Alias("nvml", name, scale)


def _otel(name: str, scale: float = 1.0) -> Alias:
    return Alias("otel", name, scale)


def _slurm(name: str, scale: float = 1.0) -> Alias:
    return Alias("slurm", name, scale)


def _host(name: str, scale: float = 1.0) -> Alias:
    return Alias("psutil", name, scale)


_COUNTER = MetricKind.COUNTER

METRICS: tuple[Metric, ...] = (
    Metric(
        name="gpu.busy_share",
        unit="1",
        of="gpu",
        meaning="part of the last sampling period in which any kernel ran",
        aliases=(
            *_dcgm(203, "DEV_GPU_UTIL", scale=0.01),
            *_dcgm(203, "DEV_GPU_UTIL_RATIO"),
            _nvml("utilization.gpu", 0.01),
            _otel("hw.gpu.utilization"),
            _slurm("gres/gpuutil", 0.01),
        ),
    ),
    Metric(
        name="gpu.copy.busy_share",
        unit="1",
        of="gpu",
        meaning="part of the period in which device memory was read or written",
        aliases=(
            *_dcgm(204, "DEV_MEM_COPY_UTIL", scale=0.01),
            *_dcgm(204, "DEV_MEM_COPY_UTIL_RATIO"),
            _nvml("utilization.memory", 0.01),
        ),
    ),
    Metric(
        name="gpu.memory.used_bytes",
        unit="By",
        of="gpu",
        meaning="device memory in use by all processes",
        aliases=(
            *_dcgm(252, "DEV_FB_USED", scale=MIB),
            _nvml("memory.used"),
            _otel("hw.gpu.memory.usage"),
            _slurm("gres/gpumem"),
        ),
    ),
    Metric(
        name="gpu.memory.free_bytes",
        unit="By",
        of="gpu",
        meaning="device memory that nobody uses",
        aliases=(*_dcgm(251, "DEV_FB_FREE", scale=MIB), _nvml("memory.free")),
    ),
    Metric(
        name="gpu.memory.limit_bytes",
        unit="By",
        of="gpu",
        meaning="device memory in all",
        aliases=(
            *_dcgm(250, "DEV_FB_TOTAL", scale=MIB),
            _nvml("memory.total"),
            _otel("hw.gpu.memory.limit"),
        ),
    ),
    Metric(
        name="gpu.power_watts",
        unit="W",
        of="gpu",
        meaning="power drawn now",
        aliases=(
            *_dcgm(155, "DEV_POWER_USAGE"),
            _nvml("power.usage", 0.001),
            _otel("hw.power"),
        ),
    ),
    Metric(
        name="gpu.energy_joules",
        unit="J",
        of="gpu",
        meaning="energy since the driver was loaded",
        kind=_COUNTER,
        rate="gpu.energy.mean_watts",
        aliases=(
            *_dcgm(156, "DEV_TOTAL_ENERGY_CONSUMPTION", scale=0.001),
            _nvml("energy.total", 0.001),
            _otel("hw.energy"),
        ),
    ),
    Metric(
        name="gpu.energy.mean_watts",
        unit="W",
        of="gpu",
        meaning="mean power between two readings of the energy counter",
    ),
    Metric(
        name="gpu.temperature_celsius",
        unit="Cel",
        of="gpu",
        meaning="temperature of the die",
        aliases=(
            *_dcgm(150, "DEV_GPU_TEMP"),
            _nvml("temperature.gpu"),
            _otel("hw.temperature"),
        ),
    ),
    Metric(
        name="gpu.clock.sm_hz",
        unit="Hz",
        of="gpu",
        meaning="clock of the streaming multiprocessors",
        aliases=(*_dcgm(100, "DEV_SM_CLOCK", scale=1e6), _nvml("clock.sm", 1e6)),
    ),
    Metric(
        name="gpu.sm.active_share",
        unit="1",
        of="gpu",
        meaning="mean share of multiprocessors with at least one warp",
        aliases=(
            *_dcgm(1002, "PROF_SM_ACTIVE", "PROF_SM_UTIL_RATIO"),
            _nvml("gpm.sm_util", 0.01),
        ),
    ),
    Metric(
        name="gpu.tensor.active_share",
        unit="1",
        of="gpu",
        meaning="mean share of cycles in which the tensor cores worked",
        aliases=(
            *_dcgm(1004, "PROF_PIPE_TENSOR_ACTIVE", "PROF_TENSOR_UTIL_RATIO"),
            _nvml("gpm.any_tensor_util", 0.01),
        ),
    ),
    Metric(
        name="gpu.dram.active_share",
        unit="1",
        of="gpu",
        meaning="mean share of cycles in which device memory moved data",
        aliases=(
            *_dcgm(1005, "PROF_DRAM_ACTIVE", "PROF_DRAM_UTIL_RATIO"),
            _nvml("gpm.dram_bw_util", 0.01),
        ),
    ),
    Metric(
        name="gpu.throttle_bits",
        unit="1",
        of="gpu",
        meaning="NVML's bit mask of why clocks are held down",
        aliases=(*_dcgm(112, "DEV_CLOCK_THROTTLE_REASONS"), _nvml("clocks.event_reasons")),
    ),
    Metric(
        name="gpu.xid_code",
        unit="1",
        of="gpu",
        meaning="the last XID error, 0 for none",
        aliases=_dcgm(230, "DEV_XID_ERRORS"),
    ),
    Metric(
        name="share.busy_share",
        unit="1",
        of="share",
        meaning="part of the period in which this job's kernels ran on this GPU",
        aliases=(_nvml("process.sm_util", 0.01),),
    ),
    Metric(
        name="share.memory.used_bytes",
        unit="By",
        of="share",
        meaning="device memory that this job holds on this GPU",
        aliases=(_nvml("process.used_memory"),),
    ),
    Metric(
        name="job.cpu_seconds",
        unit="s",
        of="job",
        meaning="processor time of all processes of the job",
        kind=_COUNTER,
        rate="job.cpu.busy_cores",
        aliases=(_otel("process.cpu.time"), _slurm("TotalCPU"), _host("process.cpu_seconds")),
    ),
    Metric(
        name="job.cpu.busy_cores",
        unit="1",
        of="job",
        meaning="processor cores that the job keeps busy",
    ),
    Metric(
        name="job.memory.used_bytes",
        unit="By",
        of="job",
        meaning="resident memory of the job's processes",
        aliases=(_otel("process.memory.usage"), _slurm("AveRSS"), _host("process.rss")),
    ),
    Metric(
        name="job.disk.read_bytes",
        unit="By",
        of="job",
        meaning="bytes that the job read from storage",
        kind=_COUNTER,
        rate="job.disk.read_bytes_per_s",
        aliases=(_slurm("AveDiskRead"), _host("process.read_bytes")),
    ),
    Metric(
        name="job.disk.read_bytes_per_s",
        unit="By/s",
        of="job",
        meaning="storage read rate of the job",
    ),
    Metric(
        name="job.disk.write_bytes",
        unit="By",
        of="job",
        meaning="bytes that the job wrote to storage",
        kind=_COUNTER,
        rate="job.disk.write_bytes_per_s",
        aliases=(_slurm("AveDiskWrite"), _host("process.write_bytes")),
    ),
    Metric(
        name="job.disk.write_bytes_per_s",
        unit="By/s",
        of="job",
        meaning="storage write rate of the job",
    ),
    Metric(
        name="host.cpu.busy_share",
        unit="1",
        of="node",
        meaning="mean share of all cores that is not idle",
        aliases=(_otel("system.cpu.utilization"), _host("cpu_percent", 0.01)),
    ),
    Metric(
        name="host.memory.used_bytes",
        unit="By",
        of="node",
        meaning="memory in use, page cache left out",
        aliases=(_otel("system.memory.usage"), _host("virtual_memory.used")),
    ),
    Metric(
        name="host.memory.available_bytes",
        unit="By",
        of="node",
        meaning="memory that a new program could have without swapping",
        aliases=(_otel("system.memory.linux.available"), _host("virtual_memory.available")),
    ),
    Metric(
        name="host.load_1m",
        unit="1",
        of="node",
        meaning="runnable and blocked tasks, mean over a minute",
        aliases=(_otel("system.cpu.load_average.1m"), _slurm("CPULoad"), _host("load_1m")),
    ),
    Metric(
        name="host.disk.read_bytes",
        unit="By",
        of="node",
        meaning="bytes read from all disks",
        kind=_COUNTER,
        rate="host.disk.read_bytes_per_s",
        aliases=(_otel("system.disk.io/read"), _host("disk.read_bytes")),
    ),
    Metric(
        name="host.disk.read_bytes_per_s", unit="By/s", of="node", meaning="read rate of all disks"
    ),
    Metric(
        name="host.disk.write_bytes",
        unit="By",
        of="node",
        meaning="bytes written to all disks",
        kind=_COUNTER,
        rate="host.disk.write_bytes_per_s",
        aliases=(_otel("system.disk.io/write"), _host("disk.write_bytes")),
    ),
    Metric(
        name="host.disk.write_bytes_per_s",
        unit="By/s",
        of="node",
        meaning="write rate of all disks",
    ),
    Metric(
        name="host.network.receive_bytes",
        unit="By",
        of="node",
        meaning="bytes received on all interfaces but loopback",
        kind=_COUNTER,
        rate="host.network.receive_bytes_per_s",
        aliases=(_otel("system.network.io/receive"), _host("net.bytes_recv")),
    ),
    Metric(
        name="host.network.receive_bytes_per_s",
        unit="By/s",
        of="node",
        meaning="receive rate of all interfaces but loopback",
    ),
    Metric(
        name="host.network.transmit_bytes",
        unit="By",
        of="node",
        meaning="bytes sent on all interfaces but loopback",
        kind=_COUNTER,
        rate="host.network.transmit_bytes_per_s",
        aliases=(_otel("system.network.io/transmit"), _host("net.bytes_sent")),
    ),
    Metric(
        name="host.network.transmit_bytes_per_s",
        unit="By/s",
        of="node",
        meaning="send rate of all interfaces but loopback",
    ),
)

_BY_NAME: Mapping[str, Metric] = {each.name: each for each in METRICS}
VOCABULARIES: tuple[str, ...] = (
    CANONICAL,
    *sorted({alias.vocabulary for each in METRICS for alias in each.aliases}),
)


def metric(name: str) -> Metric:
    """Look a metric up by our name for it."""
    found = _BY_NAME.get(name)
    if found is None:
        raise unknown_name("metric", name, _BY_NAME)
    return found


def aliases_from(vocabulary: str) -> dict[str, tuple[Metric, Alias]]:
    """Return what each name of a vocabulary means; the table works in both directions.

    >>> metric_, alias = aliases_from("dcgm")["DCGM_FI_DEV_FB_USED"]
    >>> metric_.name, alias.scale
    ('gpu.memory.used_bytes', 1048576.0)
    """
    if vocabulary not in VOCABULARIES:
        raise unknown_name("vocabulary", vocabulary, VOCABULARIES)
    if vocabulary == CANONICAL:
        return {each.name: (each, Alias(CANONICAL, each.name)) for each in METRICS}
    return {
        alias.name: (each, alias)
        for each in METRICS
        for alias in each.aliases
        if alias.vocabulary == vocabulary
    }
