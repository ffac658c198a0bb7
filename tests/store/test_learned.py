"""What was learnt outlives a restart, and never prevents one."""

from __future__ import annotations

from math import inf, isnan, nan
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.store.learned import LearnedStates

PAYLOAD = {
    "weights": np.array([[0.5, -1.25], [nan, inf]]),
    "names": np.array(["a", "ß"]),
    "arms": {"lend": {"wins": 3, "counts": np.arange(4)}},
    "history": [[1, 2.5], ["x", None, True]],
}


@pytest.fixture
def states(tmp_path: Path) -> LearnedStates:
    return LearnedStates(tmp_path / "learned")


def test_a_saved_state_comes_back_as_it_was(states: LearnedStates) -> None:
    states.save("similar-jobs", 2, PAYLOAD, learnt_from={"jobs": 812})

    state, reason = states.load("similar-jobs", 2)

    assert state is not None
    assert reason == ""
    np.testing.assert_array_equal(state.payload["weights"], PAYLOAD["weights"])
    np.testing.assert_array_equal(state.payload["names"], PAYLOAD["names"])
    np.testing.assert_array_equal(state.payload["arms"]["lend"]["counts"], np.arange(4))
    assert state.payload["history"] == PAYLOAD["history"]
    assert state.learnt_from == {"jobs": 812}
    assert states.names() == ("similar-jobs",)


def test_numbers_that_are_not_finite_come_back(states: LearnedStates) -> None:
    states.save("x", 1, {"a": nan, "b": inf, "c": np.float64(0.1)}, learnt_from={})

    state, _ = states.load("x", 1)

    assert state is not None
    assert isnan(state.payload["a"])
    assert (state.payload["b"], state.payload["c"]) == (inf, 0.1)


def test_nothing_saved_is_a_reason_and_not_an_error(states: LearnedStates) -> None:
    assert states.load("similar-jobs", 1) == (None, "nothing was saved for 'similar-jobs' yet")


def test_another_version_is_set_aside_with_the_reason(
    states: LearnedStates, tmp_path: Path
) -> None:
    states.save("similar-jobs", 1, PAYLOAD, learnt_from={})

    state, reason = states.load("similar-jobs", 2)

    assert state is None
    assert "it has version 1, and this steward reads version 2" in reason
    aside = tmp_path / "learned" / "set-aside"
    assert (aside / "similar-jobs.v1.learned").exists()
    assert "version 1" in (aside / "similar-jobs.v1.reason").read_text()
    assert states.load("similar-jobs", 2)[1] == "nothing was saved for 'similar-jobs' yet"


@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_any_flipped_bit_is_noticed(
    at: int, bit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("learned")
    states = LearnedStates(folder)
    states.save("x", 1, {"a": np.arange(50.0), "b": "text"}, learnt_from={})
    file = folder / "x.learned"
    content = bytearray(file.read_bytes())
    content[at % len(content)] ^= 1 << bit
    file.write_bytes(content)

    state, reason = states.load("x", 1)

    assert state is None
    assert "it is damaged" in reason
    assert (folder / "set-aside" / "x.damaged.learned").exists()


@pytest.mark.parametrize("content", [b"", b"STWLEARN1\n", b"null", b"PK\x03\x04"])
def test_a_cut_or_foreign_file_is_set_aside(
    states: LearnedStates, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "learned").mkdir()
    (tmp_path / "learned" / "x.learned").write_bytes(content)

    state, reason = states.load("x", 1)

    assert state is None
    assert "it is damaged" in reason


def test_a_file_of_another_name_is_not_taken(states: LearnedStates, tmp_path: Path) -> None:
    states.save("a", 1, {}, learnt_from={})
    (tmp_path / "learned" / "a.learned").rename(tmp_path / "learned" / "b.learned")

    state, reason = states.load("b", 1)

    assert state is None
    assert "it holds the state of 'a'" in reason


@pytest.mark.parametrize(
    ("payload", "where"),
    [
        ({"a": {"b": [object()]}}, "x.a.b[0]"),
        ({"a": {1: 2}}, "x.a"),
        ({"a": np.array([object()])}, "x.a"),
        ({"a": b"bytes"}, "x.a"),
    ],
)
def test_what_is_neither_json_nor_an_array_is_refused_by_its_place(
    states: LearnedStates, payload: dict[str, object], where: str
) -> None:
    states.save("x", 1, {"old": True}, learnt_from={})

    with pytest.raises(StewardError) as raised:
        states.save("x", 1, payload, learnt_from={})

    assert raised.value.where == where
    state, _ = states.load("x", 1)
    assert state is not None
    assert state.payload == {"old": True}


def test_a_name_cannot_leave_the_folder(states: LearnedStates) -> None:
    with pytest.raises(StewardError, match="cannot name a learned state"):
        states.save("../tokens", 1, {}, learnt_from={})


def test_learned_states_are_for_their_owner_only(states: LearnedStates, tmp_path: Path) -> None:
    states.save("x", 1, {}, learnt_from={})

    assert (tmp_path / "learned").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "learned" / "x.learned").stat().st_mode & 0o777 == 0o600
