"""Power of one job as the API shows it: allowed slowdown, cap, curve, energy saved."""

from __future__ import annotations

from typing import Any

from steward.config.local_jobs import LocalJobRunner
from steward.learn.estimators.power_curve import PowerCurve
from steward.model.managed_job import ManagedJob
from steward.service.live_state import LiveState

__all__ = ["power_reply"]


def power_reply(
    runner: LocalJobRunner, live_state: LiveState, job: ManagedJob
) -> dict[str, Any] | None:
    """Return what is known of a job's power; None where its owner allows no slowdown."""
    allowed = job.spec.max_slowdown_share
    if allowed <= 0:
        return None
    caps = runner.power.caps_of(job.id)
    learner = next(
        (each for each in live_state.loop.stages.estimators if isinstance(each, PowerCurve)), None
    )
    points = learner.points(job.id) if learner is not None else ()
    full = points[-1].steps_per_s if points else 0.0
    return {
        "max_slowdown_share": allowed,
        "caps": [
            {"gpu": each.gpu, "watts": each.watts, "before_watts": each.before_watts}
            for each in caps
        ],
        "refused": runner.power.refused.get(job.id),
        "curve": [
            {
                "limit_watts": each.limit_watts,
                "steps_per_s": each.steps_per_s,
                "gpu_watts": each.watts,
                "joules_per_step": each.joules_per_step,
                "slowdown_share": 1.0 - each.steps_per_s / full,
                "windows": each.windows,
            }
            for each in points
        ],
        "saved_joules": learner.saved_joules(job.id) if learner is not None else 0.0,
    }
