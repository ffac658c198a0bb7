"""What the counters of the processor, and those of the kernel for them, say: node and job."""

from __future__ import annotations

from steward.model.metric import Metric, alias
from steward.model.metrics.rows import held, level

__all__ = ["PERF_METRICS"]

PERF = "perf"


_COUNTS = (
    ("cpu.cycles", "cycles", "cycles of the processors"),
    ("cpu.instructions", "instructions", "instructions completed"),
    ("cpu.migrations", "cpu-migrations", "tasks moved to another core"),
    ("page_faults.minor", "page-faults-min", "page faults that needed no disk"),
)
_RATIOS = (
    ("cache_miss", "cache-miss-ratio", "part of look-ups that the last cache missed"),
    ("branch_miss", "branch-miss-ratio", "part of branches that were guessed wrong"),
    ("frontend_stall", "stall-frontend-ratio", "part of cycles without instructions to start"),
    ("backend_stall", "stall-backend-ratio", "part of cycles without room to go on"),
)


def _of(kind: str, prefix: str, scope: str) -> tuple[Metric, ...]:
    """Return the rows of one kind of entity; `scope` tells the words of a job from a node's."""
    return (
        *held(
            kind,
            *(
                (f"{prefix}.{name}_count", f"{prefix}.{name}_per_s", scope + word, 1.0, meaning)
                for name, word, meaning in _COUNTS
            ),
            words=PERF,
        ),
        level(
            f"{prefix}.cpu.instructions_per_cycle_ratio",
            "1",
            kind,
            "instructions completed in a cycle: below 1, the processor mostly waits",
            alias(PERF, f"{scope}ipc"),
        ),
        *(
            level(f"{prefix}.cpu.{name}_share", "1", kind, meaning, alias(PERF, scope + word))
            for name, word, meaning in _RATIOS
        ),
    )


PERF_METRICS: tuple[Metric, ...] = (
    *_of("node", "host", ""),
    *_of("job", "job", "job."),
    *held(
        "job",
        (
            "job.context_switches_count",
            "job.context_switches_per_s",
            "job.context-switches",
            1.0,
            "context switches of the job's tasks",
        ),
        (
            "job.cpu.task_seconds",
            "job.cpu.task_cores",
            "job.task-clock",
            1e-9,
            "time of the job's tasks on a core, time that a hypervisor stole included",
        ),
        words=PERF,
    ),
)
