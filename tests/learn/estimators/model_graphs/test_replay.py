"""Steps replayed on the allocator: states, gradients, and when they are freed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from steward.learn.estimators.model_graphs.question import OPTIMIZERS
from steward.learn.estimators.model_graphs.replay import Step, activation_bytes, replay

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


def test_passes_that_accumulate_hold_gradients_beside_the_activations() -> None:
    one = replay(_STEP, OPTIMIZERS["sgd"])
    two = replay(_STEP, OPTIMIZERS["sgd"], accumulate=2)

    assert two.allocated_bytes - one.allocated_bytes == 100 * _MIB


def test_states_of_eight_bits_take_a_quarter_and_their_scales() -> None:
    whole = replay(_STEP, OPTIMIZERS["adamw_fused"])
    small = replay(_STEP, OPTIMIZERS["adamw_8bit"])

    saved = whole.allocated_bytes - small.allocated_bytes
    assert saved / (200 * _MIB) == pytest.approx(1 - (1 + 4 / 256) / 4, abs=0.01)


def test_small_tensors_keep_their_states_in_32_bits() -> None:
    assert OPTIMIZERS["adamw_8bit"].state_bytes(4 * 1000) == 4000
    assert OPTIMIZERS["adamw_8bit"].state_bytes(4 * 100_000) < 110_000


def test_one_temporary_at_a_time_takes_less_than_a_list_of_all() -> None:
    step = replace(_STEP, forward=[], parameter_bytes=[100 * _MIB] * 4)

    lists = replay(step, OPTIMIZERS["adamw"])
    single = replay(step, OPTIMIZERS["adamw_single"])

    assert lists.allocated_bytes - single.allocated_bytes == 300 * _MIB


def test_factored_states_are_far_smaller_than_their_matrix() -> None:
    assert OPTIMIZERS["adafactor"].state_bytes(4 * 4096 * 4096) < 8 * 4096 + 100


def test_activations_are_what_a_pass_holds_without_its_gradients() -> None:
    assert activation_bytes(_STEP) == 300 * _MIB
