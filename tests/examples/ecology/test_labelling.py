"""Which crops an expert is asked about, how many, and when the model is not enough any more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecology.drift import AccuracyAlert, PageHinkley
from ecology.labelling import Allowance, choose, doubt, novelty


def shares(*certain: float) -> np.ndarray:
    return np.array([[each, 1 - each] for each in certain])


def test_the_most_doubtful_crops_are_chosen() -> None:
    features = np.eye(8)

    chosen = choose(shares(1, 1, 0.5, 1, 1, 0.55, 1, 1), features, np.ones((1, 8)), 2)

    assert sorted(chosen) == [2, 5]


def test_of_crops_that_are_alike_one_is_enough() -> None:
    features = np.array([[1, 0, 0], [1, 0.01, 0], [1, 0, 0.01], [0, 1, 0], [0, 0, 1]], float)

    chosen = choose(shares(0.5, 0.5, 0.5, 0.5, 0.5), features, np.zeros((0, 3)), 3)

    assert len({0, 1, 2} & set(chosen)) == 1
    assert {3, 4} < set(chosen)


def test_a_crop_unlike_all_labelled_ones_is_novel_even_if_the_model_is_certain() -> None:
    known = np.array([[1.0, 0.0]])

    far = novelty(np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]), known)

    assert far.tolist() == pytest.approx([0.0, np.sqrt(2), 2.0])


@given(st.lists(st.floats(0, 1), min_size=0, max_size=30), st.integers(0, 40))
def test_never_more_than_asked_for_and_none_twice(certain: list[float], count: int) -> None:
    given_ = shares(*certain).reshape(-1, 2)
    features = np.random.default_rng(0).normal(size=(len(certain), 4))

    chosen = choose(given_, features, features[:3], count)

    assert len(chosen) == len(set(chosen)) == min(count, len(certain))


def test_doubt_is_one_between_two_equal_classes_and_nothing_with_one_class() -> None:
    assert doubt(shares(0.5, 1.0)).tolist() == [1.0, 0.0]
    assert doubt(np.ones((2, 1))).tolist() == [0.0, 0.0]


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 50)), max_size=40))
def test_labels_are_the_share_of_what_has_arrived_and_never_more(
    days: list[tuple[int, int]],
) -> None:
    allowance, arrived, taken = Allowance(0.07), 0, 0
    for crops, wanted in days:
        allowance.arrive(crops)
        arrived += crops
        taken += allowance.take(wanted)

        assert taken <= 0.07 * arrived + 1e-6

    taken += allowance.take(10_000)  # and what was saved up is not lost
    assert taken > 0.07 * arrived - 1.0 - 1e-6


def drifts_at(values: np.ndarray) -> int | None:
    detector = PageHinkley(allowed=0.05, threshold=10.0)
    return next((i for i, each in enumerate(values.tolist()) if detector.update(each)), None)


def test_a_rise_is_found_soon_and_noise_is_not_a_rise() -> None:
    random = np.random.default_rng(3)
    quiet = random.beta(1, 6, 4000)
    risen = np.concatenate([quiet[:1000], quiet[1000:1500] + 0.2])

    found = drifts_at(risen)

    assert drifts_at(quiet) is None
    assert found is not None
    assert 1000 < found < 1150


def test_another_model_starts_with_a_clean_slate() -> None:
    detector = PageHinkley(allowed=0.0, threshold=1.0, settled=2)
    before = [detector.update(each) for each in (0, 0, 1, 1)]

    detector.restart()
    after = [detector.update(each) for each in (1, 1, 1, 1)]

    assert (before, after) == ([False, False, False, True], [False] * 4)


def test_too_many_mistakes_are_noticed_once_enough_answers_are_judged() -> None:
    alert = AccuracyAlert(least=0.8, window=5)
    answers = [alert.update(right=each) for each in (True, False, True, False, True, True, True)]

    assert answers == [False] * 4 + [True, True, False]
