"""Steps replayed on the allocator: states, gradients, and when they are freed."""

from __future__ import annotations

from steward.learn.estimators.model_graphs.question import OPTIMIZERS
from steward.learn.estimators.model_graphs.replay import Step, replay

_MIB = 1 << 20
_STEP = Step(
    setup=[(1, 100 * _MIB)],
    forward=[(2, 300 * _MIB)],
    backward=[(3, 100 * _MIB), -2],
    parameter_bytes=[100 * _MIB],
)


def test_states_of_the_optimizer_are_held_from_the_second_step_on() -> None:
    plain = replay(_STEP, OPTIMIZERS["sgd"])
    momentum = replay(_STEP, OPTIMIZERS["sgd_momentum"])

    assert momentum.allocated_bytes - plain.allocated_bytes == 100 * _MIB


def test_gradients_that_are_freed_late_are_held_during_the_forward_pass() -> None:
    step = Step(
        setup=[(1, 100 * _MIB)],
        forward=[(2, 300 * _MIB), -2],
        backward=[(3, 100 * _MIB)],
        parameter_bytes=[100 * _MIB],
    )

    early = replay(step, OPTIMIZERS["sgd"])
    late = replay(step, OPTIMIZERS["sgd"], late_zero_grad=True)

    assert late.allocated_bytes - early.allocated_bytes == 100 * _MIB


def test_inference_holds_no_states() -> None:
    step = Step(setup=[(1, 100 * _MIB)], forward=[(2, 1), -2], backward=[], parameter_bytes=[])

    assert replay(step, None).allocated_bytes < 200 * _MIB
