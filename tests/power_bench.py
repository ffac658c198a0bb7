"""A GPU whose speed and power follow a curve, seen through the views that the loop would have."""

from __future__ import annotations

from collections.abc import Callable

from factories import H200, gpu_row, job, moment, node, samples
from steward.model.event import Observation
from steward.model.frame import job_entity
from steward.model.identity import JobId
from steward.model.job import JobShape
from steward.model.view import ClusterView

__all__ = ["Bench", "root_law"]

TURN_S = 10.0
MODEL = H200.__class__(
    name="h200",
    generation="hopper",
    memory_bytes=H200.memory_bytes,
    idle_watts=75.0,
    max_watts=700.0,
    least_watts=200.0,
)
Curve = Callable[[float], tuple[float, float]]


def root_law(limit: float, drawn: float = 600.0) -> tuple[float, float]:
    """Return steps per second and watts: the speed falls as the square root of the power."""
    watts = min(limit, drawn)
    return 20.0 * (watts / drawn) ** 0.5, watts


class Bench:
    """One job on some GPUs; `turn` lets ten seconds pass under the limit that is set."""

    def __init__(self, curve: Curve = root_law, *, slowdown: float = 0.05, gpus: int = 1) -> None:
        self.curve = curve
        self.limit = 700.0
        self.steps = 0.0
        self.t_s = 1000.0
        self.gpus = [f"n1/gpu{each}" for each in range(gpus)]
        held = job("j1", on=self.gpus, shape=JobShape(gpus=gpus), max_slowdown_share=slowdown)
        self.moment = moment(node("n1", gpus, MODEL), jobs=[held])

    def turn(self) -> ClusterView:
        self.t_s += TURN_S
        speed, watts = self.curve(self.limit)
        self.steps += speed * TURN_S
        row = {**gpu_row(0.97, watts=watts), "gpu.power.limit_watts": self.limit}
        told = {job_entity(JobId("j1")): {"job.progress.step_count": float(round(self.steps))}}
        rows = {**dict.fromkeys(self.gpus, row), **told}
        self.moment.fold(Observation(frame=samples(self.t_s, rows)))
        return self.moment.view(self.t_s)
