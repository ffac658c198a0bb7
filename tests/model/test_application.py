from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.model.application import BatchSplit, packed_shape
from tiny_profiles import learning, profile, step_times, two_types


def test_a_measured_step_is_given_back_as_it_was_measured() -> None:
    times = step_times()

    step_s, sync_s = times.pass_s((2, 2), 16)

    assert (step_s, sync_s) == pytest.approx((0.1 + 0.16 + 0.054, 0.054))


def test_between_two_measurements_the_time_is_on_the_line_between_them() -> None:
    assert step_times().pass_s((1,), 24)[0] == pytest.approx(0.1 + 0.24)


def test_beyond_what_was_measured_the_last_value_holds() -> None:
    times = step_times()

    assert times.pass_s((1,), 3) == times.pass_s((1,), 8)
    assert times.pass_s((1,), 99) == times.pass_s((1,), 32)


def test_a_single_measurement_stands_for_every_batch() -> None:
    times = step_times()
    lone = replace(times, by_shape={**times.by_shape, (3,): np.array([[8.0, 0.5, 0.1]])})

    assert lone.pass_s((3,), 20) == (0.5, 0.1)


def test_a_placement_is_the_same_from_whichever_node_it_is_told() -> None:
    times = step_times()

    assert times.pass_s((2, 1), 16) == times.pass_s((1, 2), 16)


def test_a_placement_that_was_not_measured_lies_between_those_that_were() -> None:
    times = step_times()

    fewer, more = times.pass_s((1, 1, 1), 16)[0], times.pass_s((4, 4, 4), 16)[0]

    assert fewer < times.pass_s((2, 2, 2), 16)[0] < more


def test_outside_everything_measured_the_nearest_measurement_counts() -> None:
    times = step_times()

    assert times.pass_s((4,) * 12, 16) == pytest.approx(times.pass_s((4,) * 6, 16))


def test_memory_limits_the_samples_of_a_placement() -> None:
    times = step_times(max_local=20)

    assert times.local_limit((1,)) == 20
    assert step_times().local_limit((2, 2)) == 32
    assert step_times().local_limit((2, 2, 2)) == 32
    assert step_times().local_limit((4,) * 12) == 32  # wider than all: what fits one GPU


def test_what_is_known_of_a_gpu_type_at_a_glance() -> None:
    times = step_times()

    assert (times.min_local, times.most_replicas) == (8, 24)
    assert times.samples_per_s == pytest.approx(32 / 0.42)


def test_progress_ends_with_the_slowest_batch() -> None:
    assert learning(epochs=2).milestones() == (0.0, 1000.0, 2000.0)


def test_a_step_of_the_first_batch_is_worth_one() -> None:
    assert learning().gain(16, 0) == pytest.approx(1.0)


@given(batch=st.integers(16, 256), epoch=st.integers(0, 3))
def test_a_larger_batch_is_worth_more_but_less_than_in_proportion(batch: int, epoch: int) -> None:
    gain = learning().gain(batch, epoch)

    assert 1.0 <= gain <= batch / 16 + 1e-9


def test_gradients_between_two_batches_are_weighed_by_distance() -> None:
    assert learning().gradient(40, 0) == pytest.approx((1.0, 6.0))


def test_gradients_outside_the_batches_tried_are_those_at_the_ends() -> None:
    assert learning().gradient(2, 0) == (1.0, 4.0)
    assert learning().gradient(999, 0) == (1.0, 16.0)


def test_steps_so_far_follow_the_batch() -> None:
    assert learning().steps_after(64, 1) == 800.0
    assert learning().steps_after(40, 1) == 1400.0


def test_a_batch_that_does_not_fit_is_split_into_passes() -> None:
    assert profile().split(256, (2,)) == BatchSplit(atomic=32, passes=4)


def test_one_gpu_above_the_first_batch_needs_two_passes_to_see_the_noise() -> None:
    assert profile().split(32, (1,)) == BatchSplit(atomic=16, passes=2)
    assert profile().split(16, (1,)) == BatchSplit(atomic=16, passes=1)


@given(batch=st.integers(16, 256), gpus=st.integers(1, 8))
def test_no_split_exceeds_memory_or_the_largest_batch(batch: int, gpus: int) -> None:
    split = profile().split(batch, packed_shape(gpus, 4))

    assert split.atomic <= 32
    assert batch - gpus * split.passes < split.total(gpus) <= 256


def test_passes_sync_only_once_and_real_runs_are_slower() -> None:
    split = BatchSplit(atomic=16, passes=3)

    once = profile().step_s(split, (2,))

    assert once == pytest.approx(3 * 0.26 + 0.022)
    assert profile(slowdown=1.5).step_s(split, (2,)) == pytest.approx(1.5 * once)


def test_an_unmeasured_gpu_type_is_refused_with_those_that_were_measured() -> None:
    with pytest.raises(StewardError, match="never measured on 'v100'") as refused:
        two_types().on("v100")

    assert refused.value.hint == "measured: t4, a100"


def test_no_gpu_type_means_the_first() -> None:
    known = two_types()

    assert known.on(None) is known.step_times["t4"]
    assert known.on("a100").samples_per_s > known.on(None).samples_per_s
