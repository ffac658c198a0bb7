"""What the counters of the processor, and those of the kernel for them, say: node and job."""

from __future__ import annotations

from steward.model.metric import Metric, alias
from steward.model.metrics.rows import grows, level

__all__ = ["PERF_METRICS"]

PERF = "perf"


def _of(kind: str, prefix: str, scope: str) -> tuple[Metric, ...]:
    """Return the rows of one kind of entity; `scope` tells the words of a job from a node's."""
    return (
        *grows(
            kind,
            *(
                (f"{prefix}.{name}_count", f"{prefix}.{name}_per_s", scope + word, 1.0, meaning)
                for name, word, meaning in (
                    ("cpu.cycles", "cycles", "cycles of the processors"),
                    ("cpu.instructions", "instructions", "instructions completed"),
                    ("cpu.migrations", "cpu-migrations", "tasks moved to another core"),
                )
            ),
            (
                f"{prefix}.cpu.task_seconds",
                f"{prefix}.cpu.task_cores",
                f"{scope}task-clock",
                1e-9,
                "processor time of tasks, to the nanosecond",
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
            for name, word, meaning in (
                ("cache_miss", "cache-miss-ratio", "part of look-ups that the last cache missed"),
                ("branch_miss", "branch-miss-ratio", "part of branches that were guessed wrong"),
                ("frontend_stall", "stall-frontend-ratio", "cycles without instructions to start"),
                ("backend_stall", "stall-backend-ratio", "cycles without room to go on"),
            )
        ),
    )


PERF_METRICS: tuple[Metric, ...] = (
    *_of("node", "host", ""),
    *_of("job", "job", "job."),
    *grows(
        "job",
        (
            "job.context_switches_count",
            "job.context_switches_per_s",
            "job.context-switches",
            1.0,
            "context switches of the job's tasks",
        ),
        words=PERF,
    ),
)
