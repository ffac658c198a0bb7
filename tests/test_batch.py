"""Batch work gives the same answer wherever its parts run."""

from __future__ import annotations

import pytest

from steward.batch import Batch, Workers, map_parts, run_batch
from steward.errors import StewardError


def partition(text: str) -> list[str]:
    return text.split()


def count(_text: str, word: str) -> dict[str, int]:
    return {word: 1}


def merge(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {word: one.get(word, 0) + other.get(word, 0) for word in (*one, *other)}


def finish(counts: dict[str, int]) -> list[tuple[str, int]]:
    return list(counts.items())


WORDS = Batch(partition=partition, map=count, merge=merge, finish=finish)


def test_partial_results_merge_in_the_order_of_the_parts() -> None:
    assert run_batch(WORDS, "b a b c") == [("b", 2), ("a", 1), ("c", 1)]


def test_two_processes_give_the_answer_of_one() -> None:
    text = "b a b c a b"

    assert run_batch(WORDS, text, Workers(processes=2)) == run_batch(WORDS, text)


def test_results_come_with_the_places_of_their_parts() -> None:
    assert dict(map_parts(count, "", ["x", "y"])) == {0: {"x": 1}, 1: {"y": 1}}


def test_a_dask_scheduler_that_does_not_answer_is_named() -> None:
    pytest.importorskip("distributed", reason="dask is an extra")
    nobody = Workers(scheduler="tcp://127.0.0.1:9", answers_within_s=0.2)

    with pytest.raises(StewardError, match="no Dask scheduler answers at 'tcp://127") as caught:
        run_batch(WORDS, "a b", nobody)

    assert caught.value.where == "--scheduler"
