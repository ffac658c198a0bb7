"""What the processes of one job can be asked."""

from __future__ import annotations

from steward.model.metric import COUNTER, Metric, alias, counted, otel, slurm
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
            alias("psutil", "process.cpu_seconds"),
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
            alias("psutil", "process.rss"),
            alias(LINUX, "cgroup.memory.resident"),
        ),
    ),
    *counted(
        "job.disk.read_bytes",
        "job.disk.read_bytes_per_s",
        of="job",
        meaning="bytes that the job read from storage",
        aliases=(
            slurm("AveDiskRead"),
            alias("psutil", "process.read_bytes"),
            alias(LINUX, "cgroup.io.rbytes"),
        ),
    ),
    *counted(
        "job.disk.write_bytes",
        "job.disk.write_bytes_per_s",
        of="job",
        meaning="bytes that the job wrote to storage",
        aliases=(
            slurm("AveDiskWrite"),
            alias("psutil", "process.write_bytes"),
            alias(LINUX, "cgroup.io.wbytes"),
        ),
    ),
    *CGROUP_METRICS,
    # -- marks: what training scripts say of themselves ----------------------------------------
    Metric(
        name="job.step_count",
        unit="1",
        of="job",
        meaning="steps that the job has done since it began, by its own count",
    ),
    Metric(
        name="job.steps_per_s",
        unit="1/s",
        of="job",
        meaning="steps of the job per second, mean of its ranks here",
    ),
    Metric(
        name="job.step.mean_seconds",
        unit="s",
        of="job",
        meaning="time of one step, waiting included, phases left out",
    ),
    Metric(
        name="job.step.longest_seconds",
        unit="s",
        of="job",
        meaning="longest step of any rank since the last sample",
    ),
    Metric(
        name="job.step.wait_share",
        unit="1",
        of="job",
        meaning="part of the time of steps that went by waiting for the next batch",
    ),
    Metric(
        name="job.progress.step_count",
        unit="1",
        of="job",
        meaning="steps of the training by its progress file, those of earlier attempts included",
        aliases=(slurm("steward.progress.step"),),
    ),
    Metric(
        name="job.rank_count",
        unit="1",
        of="job",
        meaning="ranks of the job on this node that were heard",
    ),
)
