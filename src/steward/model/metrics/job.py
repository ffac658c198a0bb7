"""What the processes of one job can be asked."""

from __future__ import annotations

from steward.model.metric import COUNTER, Metric, alias, otel, psutil, slurm
from steward.model.metrics.cgroup import CGROUP_METRICS, NANO, USEC
from steward.model.metrics.rows import LINUX

__all__ = ["JOB_METRICS"]

JOB_METRICS: tuple[Metric, ...] = (
    Metric(
        name="job.cpu_seconds",
        unit="s",
        of="job",
        meaning="processor time of all processes of the job",
        kind=COUNTER,
        rate="job.cpu.busy_cores",
        aliases=(
            otel("process.cpu.time"),
            slurm("TotalCPU"),
            psutil("process.cpu_seconds"),
            alias(LINUX, "cgroup.cpu.stat.usage_usec", USEC),
            alias(LINUX, "cgroup.cpuacct.usage", NANO),
        ),
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
        aliases=(
            otel("process.memory.usage"),
            slurm("AveRSS"),
            psutil("process.rss"),
            alias(LINUX, "cgroup.memory.resident"),
        ),
    ),
    Metric(
        name="job.disk.read_bytes",
        unit="By",
        of="job",
        meaning="bytes that the job read from storage",
        kind=COUNTER,
        rate="job.disk.read_bytes_per_s",
        aliases=(
            slurm("AveDiskRead"),
            psutil("process.read_bytes"),
            alias(LINUX, "cgroup.io.rbytes"),
        ),
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
        kind=COUNTER,
        rate="job.disk.write_bytes_per_s",
        aliases=(
            slurm("AveDiskWrite"),
            psutil("process.write_bytes"),
            alias(LINUX, "cgroup.io.wbytes"),
        ),
    ),
    Metric(
        name="job.disk.write_bytes_per_s",
        unit="By/s",
        of="job",
        meaning="storage write rate of the job",
    ),
    *CGROUP_METRICS,
)
