"""What the control groups of a job can be asked, on one node; v1 and v2 count in other units."""

from __future__ import annotations

from steward.model.metric import Metric, alias, counted
from steward.model.metrics.rows import LINUX, grows, held, level

__all__ = ["CGROUP_METRICS", "NANO", "USEC"]

USEC = 1e-6  # v2
NANO = 1e-9  # v1

_PROCESSORS = tuple(
    each
    for name, second, first, meaning in (
        ("user", "user_usec", "usage_user", "processor time of the job's programs"),
        ("system", "system_usec", "usage_sys", "processor time of the kernel for the job"),
    )
    for each in counted(
        f"job.cpu.{name}_seconds",
        f"job.cpu.{name}_cores",
        of="job",
        meaning=meaning,
        aliases=(
            alias(LINUX, f"cgroup.cpu.stat.{second}", USEC),
            alias(LINUX, f"cgroup.cpuacct.{first}", NANO),
        ),
    )
)

_THROTTLED = (
    *counted(
        "job.cpu.throttled_seconds",
        "job.cpu.throttled_cores",
        of="job",
        meaning="time that the job's tasks were kept from running by its limit",
        aliases=(
            alias(LINUX, "cgroup.cpu.stat.throttled_usec", USEC),
            alias(LINUX, "cgroup.cpu.stat.throttled_time", NANO),
        ),
    ),
    level(
        "job.cpu.limit_cores",
        "1",
        "job",
        "cores that the job may use at most",
        alias(LINUX, "cgroup.cpu.limit"),
    ),
)

_MEMORY = tuple(
    level(f"job.memory.{name}_bytes", "By", "job", meaning, alias(LINUX, f"cgroup.memory.{word}"))
    for name, word, meaning in (
        ("charged", "current", "memory that counts against the job's limit, page cache included"),
        ("peak", "peak", "the most that was ever charged to the job"),
        ("limit", "limit", "memory that the job may have at most"),
        ("anonymous", "anon", "memory of the job's programs that no file backs"),
        ("cached", "file", "page cache of the job"),
        ("swap_used", "swap", "swap space of the job"),
    )
)

_COUNTS = (
    *grows(
        "job",
        ("job.disk.reads_count", "job.disk.reads_per_s", "cgroup.io.rios", 1.0, "reads of the job"),
        (
            "job.disk.writes_count",
            "job.disk.writes_per_s",
            "cgroup.io.wios",
            1.0,
            "writes of the job",
        ),
    ),
    # A kernel adds up all cores and all groups below before it answers these.
    *held(
        "job",
        *(
            (f"job.{name}_count", f"job.{name}_per_s", f"cgroup.memory.{word}", 1.0, meaning)
            for name, word, meaning in (
                ("page_faults", "pgfault", "page faults of the job"),
                ("page_faults.major", "pgmajfault", "page faults that had to read from a disk"),
                ("memory.oom_kills", "oom_kill", "processes of the job killed for want of memory"),
            )
        ),
        *(
            (
                f"job.pressure.{what}.{who}_seconds",
                f"job.pressure.{what}.{who}_share",
                f"cgroup.pressure.{what}.{who}",
                USEC,
                (
                    f"time in which {'all tasks' if who == 'full' else 'a task'} of the job "
                    f"waited for {what}"
                ),
            )
            for what in ("cpu", "memory", "io")
            for who in ("some", "full")
        ),
    ),
)

CGROUP_METRICS: tuple[Metric, ...] = (
    *_PROCESSORS,
    *_THROTTLED,
    *_MEMORY,
    *_COUNTS,
    level(
        "job.tasks_count",
        "1",
        "job",
        "processes and threads of the job",
        alias(LINUX, "cgroup.pids.current"),
    ),
)
