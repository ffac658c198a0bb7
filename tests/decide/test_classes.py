"""Priority classes count by their order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.decide.scheduling.classes import class_weights


def test_classes_count_by_their_order_and_not_by_their_numbers() -> None:
    near, far = (np.array(row) for row in ([1, 0, 2, 0], [5, -3, 9000, -3]))

    assert class_weights(near, 3.0).tolist() == [3.0, 1.0, 9.0, 1.0]
    assert class_weights(far, 3.0).tolist() == [3.0, 1.0, 9.0, 1.0]


def test_a_single_class_weighs_nothing() -> None:
    assert class_weights(np.array([70, 70]), 10.0).tolist() == [1.0, 1.0]


def test_nobody_has_no_class() -> None:
    assert class_weights(np.array([], np.int64), 2.0).tolist() == []


@pytest.mark.parametrize(("numbers", "most"), [(16, 2.0**15), (17, 1.0)])
def test_more_than_sixteen_numbers_are_no_classes(numbers: int, most: float) -> None:
    weights = class_weights(np.arange(numbers), 2.0)

    assert (weights.min(), weights.max()) == (1.0, most)


@given(
    priority=st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=16),
    class_weight=st.floats(1.0, 100.0),
)
def test_who_is_of_a_higher_class_never_weighs_less(
    priority: list[int], class_weight: float
) -> None:
    weights = class_weights(np.array(priority), class_weight)

    for mine, weight in zip(priority, weights, strict=True):
        assert all(weights[i] <= weight for i, other in enumerate(priority) if other <= mine)
