"""Where blocks end makes no difference; runs that alternate and clocks that go back are fine."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from steward.learn.patterns.combining import Combiner
from steward.learn.patterns.groups import MetricGroup
from steward.learn.patterns.window_fold import WindowFold, Windows, usual_step

GROUP = MetricGroup(name="g", match=("x",))


def fold(
    t_s: NDArray[np.float64],
    run: NDArray[np.int64],
    values: NDArray[np.float32],
    *,
    blocks: list[int],
    sizes: tuple[float, ...] = (1.0, 2.5),
) -> tuple[WindowFold, list[Windows]]:
    found = WindowFold(
        windows_s=sizes,
        statistics=("median",),
        combine=Combiner(groups=(GROUP,), members=((0,),), statistics=("median",)),
        columns=1,
        period_s=usual_step(t_s, run),
    )
    edges = sorted({0, len(t_s), *(each for each in blocks if each < len(t_s))})
    for a, b in itertools.pairwise(edges):
        found.add(t_s[a:b], run[a:b], values[None, a:b])
    return found, found.finish()


def same(one: list[Windows], other: list[Windows]) -> bool:
    return all(
        np.array_equal(getattr(a, name), getattr(b, name), equal_nan=name == "values")
        for a, b in zip(one, other, strict=True)
        for name in ("run", "number", "rows", "values")
    )


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(1, 400), max_size=8),
    st.sampled_from(["one", "after another", "alternating"]),
)
def test_windows_do_not_depend_on_where_blocks_end(seed: int, blocks: list[int], form: str) -> None:
    rng = np.random.default_rng(seed)
    rows = 400
    run = {
        "one": np.zeros(rows, np.int64),
        "after another": np.arange(rows) // 150,
        "alternating": np.arange(rows) % 3,
    }[form]
    t_s = np.cumsum(rng.choice([0.1, 0.1, 0.1, 0.35], rows)) + 1e9
    values = rng.normal(size=rows).astype(np.float32)

    _, divided = fold(t_s, run, values, blocks=blocks)

    _, whole = fold(t_s, run, values, blocks=[])
    assert same(divided, whole)
    for windows in whole:
        assert windows.rows.sum() == rows


def test_each_run_has_windows_of_its_own() -> None:
    t_s = np.array([0.0, 0.5, 10.2, 10.7, 11.2])
    run = np.array([0, 0, 1, 1, 1])
    values = np.array([1, 3, 5, 7, 9], np.float32)

    found, (windows,) = fold(t_s, run, values, blocks=[], sizes=(1.0,))

    assert windows.run.tolist() == [0, 1, 1]
    assert windows.values[:, 0].tolist() == [2.0, 6.0, 9.0]
    assert found.begin_s == [0.0, 10.2]


def test_an_hour_that_comes_twice_is_there_once() -> None:
    t_s = np.concatenate([np.arange(0, 20, 0.1), np.arange(10, 12, 0.1)])
    values = np.concatenate([np.ones(200), np.full(20, 9.0)]).astype(np.float32)

    found, (windows,) = fold(t_s, np.zeros(220, np.int64), values, blocks=[200], sizes=(1.0,))

    assert found.backwards == 0  # each block is in order
    assert windows.number.tolist() == list(range(20))
    assert windows.values[:, 0].tolist() == [1.0] * 20


def test_times_that_go_back_are_counted_and_put_in_order() -> None:
    t_s = np.arange(0, 4, 0.1)
    t_s[[9, 10]] = t_s[[10, 9]]  # across the border of a window

    found, (windows,) = fold(
        t_s, np.zeros(40, np.int64), np.ones(40, np.float32), blocks=[], sizes=(1.0,)
    )

    assert found.backwards == 1
    assert windows.rows.tolist() == [10, 10, 10, 10]
