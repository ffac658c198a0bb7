from __future__ import annotations

import json
import random
from collections import Counter, OrderedDict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.training.protocol import TrainingError
from steward.training.state import (
    Snapshot,
    capture_generators,
    decode,
    encode,
    restore_generators,
    stateful,
)


def again(value: Any) -> Any:
    snapshot = Snapshot()
    tree = json.loads(json.dumps(encode(value, "x", snapshot), allow_nan=False))
    snapshot.check()
    return decode(tree, lambda each: snapshot.tensors[each["$tensor"]], snapshot.arrays.__getitem__)


keys = st.one_of(st.integers(), st.text(max_size=4), st.booleans(), st.none())
leaves = st.one_of(
    keys,
    st.floats(allow_nan=False),
    st.binary(max_size=4),
    st.frozensets(st.integers(), max_size=3),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(keys, inner, max_size=3),
        st.dictionaries(keys, inner, max_size=3).map(OrderedDict),
        st.tuples(inner, inner),
    ),
    max_leaves=12,
)


def shape(value: Any) -> Any:
    """Return a value with the types that == does not compare."""
    if isinstance(value, dict):
        return type(value), [(shape(k), shape(v)) for k, v in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [shape(each) for each in value]
    return type(value), repr(value) if isinstance(value, float) else value


@given(values)
def test_plain_values_come_back_with_their_types(value: Any) -> None:
    assert shape(again(value)) == shape(value)


def test_what_is_not_finite_comes_back() -> None:
    assert again([float("inf"), -float("inf")]) == [float("inf"), -float("inf")]
    assert np.isnan(again(float("nan")))


def test_counters_and_metadata_of_modules_come_back() -> None:
    state: OrderedDict[str, Any] = OrderedDict(a=1)
    state._metadata = {"": {"version": 2}}  # type: ignore[attr-defined]

    assert again(Counter({3: 2})) == Counter({3: 2})
    assert isinstance(again(Counter()), Counter)
    assert again(state)._metadata == {"": {"version": 2}}


def test_arrays_and_scalars_of_numpy_come_back_bit_by_bit() -> None:
    array = np.random.default_rng(1).random((3, 4)).astype(np.float32).T

    back = again({"a": array, "s": np.float64(0.1), "same": array})

    assert back["a"].dtype == np.float32
    assert back["a"].tobytes() == array.tobytes()
    assert type(back["s"]) is np.float64
    assert back["same"].shape == (4, 3)


def test_everything_that_cannot_be_saved_is_named() -> None:
    snapshot = Snapshot()
    encode({"f": print, "o": [np.array([object()])], "ok": 1}, "model", snapshot)

    with pytest.raises(TrainingError) as caught:
        snapshot.check()

    assert "model/f is a builtins.builtin_function_or_method" in str(caught.value)
    assert "model/o/0 is a numpy.ndarray" in str(caught.value)
    assert "model/ok" not in str(caught.value)


def test_global_generators_draw_the_same_again() -> None:
    def draw() -> tuple[float, float, float]:
        return random.random(), random.gauss(0, 1), float(np.random.standard_normal())

    draw()  # an odd number: the second half of a pair of normal numbers is kept
    states = again(capture_generators())
    first = [draw() for _ in range(3)]
    restore_generators(states)

    assert [draw() for _ in range(3)] == first


@pytest.mark.parametrize(
    "generator", [random.Random(1), np.random.default_rng(1), np.random.RandomState(1)]
)
def test_generators_of_the_callers_own_have_a_state(generator: Any) -> None:
    state = stateful("g", generator)
    kept = again(state.state_dict())
    first = generator.random()
    state.load_state_dict(kept)

    assert generator.random() == first


def test_an_object_without_a_state_is_refused_by_name() -> None:
    with pytest.raises(TrainingError, match="`ema` is a int, which has no state_dict"):
        stateful("ema", 3)
