"""Step time from recorded traces and from made ones."""

from __future__ import annotations

import numpy as np
import pytest

from recorded_traces import recorded_trace
from steward.learn.estimators.model_graphs.calibration import calibration
from steward.learn.estimators.model_graphs.gpu_types import gpu_type
from steward.learn.estimators.model_graphs.op_classes import op_work
from steward.learn.estimators.model_graphs.op_times import (
    FEATURES,
    KIND,
    START,
    in_seconds,
    step_seconds,
    step_work,
)

_H200 = gpu_type("h200").rates


def _seconds(name: str, offsets: tuple[float, float, float] = (0, 0, 0), passes: int = 1) -> float:
    work = step_work(recorded_trace(name), states=2, trains=True).passes(passes)
    return step_seconds(in_seconds(work, _H200), calibration().costs, offsets).seconds


def test_each_feature_has_a_start_and_a_kind() -> None:
    assert len(FEATURES) == len(START) == len(KIND)
    assert np.isfinite(START).all()


def test_a_slower_device_or_host_never_makes_a_step_shorter() -> None:
    plain = _seconds("gpt2_b4_train")

    for offsets in ((0.5, 0.0, 0.0), (0.0, 0.5, 0.0), (0.0, 0.0, 0.5)):
        assert plain < _seconds("gpt2_b4_train", offsets) < plain * np.exp(0.5) * 1.001


def test_passes_repeat_forward_and_backward_but_not_the_optimizer() -> None:
    one, four = _seconds("resnet18_b8_train"), _seconds("resnet18_b8_train", passes=4)

    assert one * 2 < four < one * 4


def test_a_small_batch_is_decided_by_the_host() -> None:
    work = step_work(recorded_trace("resnet18_b8_train"), states=0, trains=True)

    time = step_seconds(in_seconds(work, _H200), calibration().costs)

    assert time.host_share > 0.5
    assert time.seconds >= max(time.device_s, time.host_s)


def test_a_trace_without_views_and_modules_is_read_too() -> None:
    trace = recorded_trace("resnet18_b8_train")
    full = step_work(trace, states=0, trains=True).counts.sum()
    del trace["views"], trace["modules"]

    assert step_work(trace, states=0, trains=True).counts.sum() < full


def test_the_backward_pass_of_a_grouped_convolution_counts_its_groups() -> None:
    shapes = [[8, 64, 10, 10], [8, 64, 10, 10], [64, 1, 3, 3]]

    found = op_work("convolution_backward", shapes, 4, 1e15, 1.0, backward=True, extra=(9, 1, 64))

    assert found.kind == "conv_depth_full_b"
    assert found.flops == pytest.approx(2 * 2 * 8 * 64 * 100 * 9)


@pytest.mark.parametrize(
    ("name", "item", "kind"),
    [
        ("mm", 2, "mm_low_f"),
        ("bmm", 4, "bmm_full"),
        ("native_layer_norm", 2, "ln_full_f"),
        ("_softmax", 4, "red_full"),
        ("never_heard_of", 4, "mem_full"),
        ("_scaled_dot_product_flash_attention", 2, "att_low_f"),
    ],
)
def test_an_operator_has_its_class(name: str, item: int, kind: str) -> None:
    assert op_work(name, [[4, 4], [4, 4]], item, 1.0, 1.0, backward=False, extra=()).kind == kind
