"""Fits of costs and offsets recover what made the data."""

from __future__ import annotations

import numpy as np
import pytest

from recorded_traces import recorded_trace
from steward.learn.estimators.model_graphs.calibration import calibration
from steward.learn.estimators.model_graphs.gpu_types import gpu_type
from steward.learn.estimators.model_graphs.op_times import (
    START,
    in_seconds,
    step_seconds,
    step_work,
)
from steward.learn.estimators.model_graphs.time_fit import (
    MeasuredStep,
    Shape,
    fit_costs,
    fit_offsets,
)


def _steps(offsets: tuple[float, float, float], group: str = "h200") -> list[MeasuredStep]:
    known = calibration()
    found = []
    for name in ("gpt2_b4_train", "resnet18_b8_train"):
        work = step_work(recorded_trace(name), states=2, trains=True)
        for times in (1, 3, 9):  # a larger batch: the device does more, the host the same
            scale = np.array([times] * 4 + [1])[:, None, None]
            ways = in_seconds(type(work)(work.counts * scale), gpu_type("h200").rates)
            seconds = step_seconds(ways, known.costs, offsets).seconds
            found.append(MeasuredStep(ways, seconds, group))
    return found


@pytest.mark.parametrize("offsets", [(0.3, 0.3, 0.0), (-0.2, -0.2, 0.3)])
def test_offsets_of_a_gpu_bring_predictions_onto_its_runs(
    offsets: tuple[float, float, float],
) -> None:
    steps, known = _steps(offsets), calibration()

    fitted = fit_offsets(steps, known.costs, noise=0.01)

    for step in steps:
        found = step_seconds(step.ways, known.costs, tuple(fitted)).seconds
        assert found == pytest.approx(step.seconds, rel=0.05)


def test_one_run_moves_an_offset_less_than_many() -> None:
    steps, known = _steps((0.6, 0.6, 0.6)), calibration()

    few = fit_offsets(steps[:1], known.costs, noise=0.3)
    many = fit_offsets(steps, known.costs, noise=0.3)

    assert 0 < few.sum() < many.sum() < 1.8


def test_costs_of_two_groups_differ_by_offsets_only() -> None:
    steps = _steps((0.0, 0.0, 0.0)) + _steps((0.4, 0.4, 0.4), "slow")
    shape = Shape(2.5, 0.05, 0.1)

    fit = fit_costs(steps, shape, reference="h200", spreads={"slow": (0.5, 0.5, 0.5)})

    assert len(fit.costs) == len(START)
    for step in steps:
        offsets = tuple(fit.offsets.get(step.group, (0.0, 0.0, 0.0)))
        found = step_seconds(step.ways, [(fit.costs, shape.sharpness)], offsets).seconds
        assert found == pytest.approx(step.seconds, rel=0.1)
