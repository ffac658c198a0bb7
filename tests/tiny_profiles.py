"""A small made-up application, measured on one or two GPU types, and jobs of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from steward.decide.scheduling.elastic.interface import ElasticJob, ElasticView, Placement
from steward.model.application import ApplicationProfile, Learning, StepTimes
from steward.model.goodput import GoodputModel, StepModel
from steward.model.trace import Trace, trace_of

SAMPLES = (8, 16, 32)


def step_times(*, grad_s_per_sample: float = 0.01, max_local: int = 32) -> StepTimes:
    """Steps that take 0.1 s and so much per sample; syncing is dearer between nodes."""

    def row(nodes: int, replicas: int, samples: int) -> tuple[float, float]:
        sync_s = 0.0 if replicas == 1 else (0.05 if nodes > 1 else 0.02) + 0.001 * replicas
        return 0.1 + grad_s_per_sample * samples + sync_s, sync_s

    shapes = [(1,), (2,), (4,), (1, 1), (1, 2), (2, 2), (4, 4)]
    return StepTimes(
        by_shape={
            shape: np.array([(b, *row(len(shape), sum(shape), b)) for b in SAMPLES], np.float64)
            for shape in shapes
        },
        by_count=np.array(
            [
                (nodes, gpus, b, *row(nodes, gpus, b))
                for nodes, gpus in ((3, 3), (3, 12), (6, 6), (6, 24))
                for b in SAMPLES
            ],
            np.float64,
        ),
        max_local=max_local,
    )


def learning(*, epochs: int = 4) -> Learning:
    """Larger batches need fewer steps, but not in proportion."""
    batches = (16, 64, 256)
    steps = np.array([[1000.0, 400.0, 200.0]]).T * np.arange(1, epochs + 1)
    return Learning(
        batches=batches,
        progress=np.tile(1000.0 * np.arange(1, epochs + 1), (3, 1)),
        steps=steps,
        grad_sqr=np.ones((3, epochs)),
        grad_var=np.array([[4.0, 8.0, 16.0]]).T * np.ones((3, epochs)),
    )


def profile(**changed: Any) -> ApplicationProfile:
    values: dict[str, Any] = {
        "name": "toy",
        "learning": learning(),
        "step_times": {"t4": step_times()},
    }
    return ApplicationProfile(**(values | changed))


def two_types() -> ApplicationProfile:
    """A second type that is four times as fast on every sample."""
    return profile(
        step_times={"t4": step_times(), "a100": step_times(grad_s_per_sample=0.0025)},
        restart_s=20.0,
    )


MODEL = GoodputModel(
    step=StepModel(0.1, 0.01, 0.05, 0.001, 0.02, 0.001, 1.0),
    grad_sqr=1.0,
    grad_var=8.0,
    init_batch=16.0,
    max_batch=256.0,
    min_local=8.0,
    max_local=32.0,
)


def job(row: int, **changed: Any) -> ElasticJob:
    values: dict[str, Any] = {
        "age_s": 600.0,
        "attained_gpu_s": 0.0,
        "restarts": 0,
        "restarting": False,
        "placement": (),
        "replicas": 1,
        "batch": 64.0,
        "restart_s": 30.0,
    }
    return ElasticJob(row=row, **(values | changed))


def moment(*jobs: ElasticJob, node_gpus: tuple[int, ...] = (4, 4), **changed: Any) -> ElasticView:
    values: dict[str, Any] = {"node_type": (0,) * len(node_gpus)}
    return ElasticView(jobs=jobs, node_gpus=node_gpus, **(values | changed))


def trace(*submit_s: float, gpus: float = 2.0, model: str = "toy") -> Trace:
    n = len(submit_s)
    return trace_of(
        "toy",
        submit_s=submit_s,
        duration_s=[float("nan")] * n,
        gpus=[gpus] * n,
        model=[model] * n,
        batch=[64.0] * n,
    )


def held(placements: dict[int, Placement] | Any) -> dict[int, int]:
    """Return the GPUs in use by node."""
    used: dict[int, int] = {}
    for nodes in placements.values():
        for node in nodes:
            used[node] = used.get(node, 0) + 1
    return used
