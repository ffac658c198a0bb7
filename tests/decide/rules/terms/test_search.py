"""Both searches find the literals that are in entries, also where a buffer is cut into pieces."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from decide.rules.terms.blocks import block
from steward.decide.rules.terms.automaton import AutomatonSearch
from steward.decide.rules.terms.literal_index import LiteralIndex
from steward.decide.rules.terms.literals import Literal, Need
from steward.decide.rules.terms.search import HyperscanSearch, Search
from steward.model.rules import LogBlock

texts = st.text(alphabet="abA\x00é", min_size=1, max_size=5).map(str.encode)
sharp = texts.map(Literal)
caseless = texts.map(lambda text: Literal(text.lower(), caseless=True))
literals = st.lists(st.one_of(sharp, caseless), max_size=6, unique=True)
entries = st.lists(st.binary(max_size=3) | st.lists(texts, max_size=9).map(b"".join), max_size=6)


def pairs(search: Search, within: LogBlock) -> set[tuple[int, int]]:
    found = search.find(within)
    return set(zip(*(each.tolist() for each in found), strict=True))


def expected(wanted: list[Literal], within: LogBlock) -> set[tuple[int, int]]:
    return {
        (entry, number)
        for entry in range(len(within))
        for number, (text, anyhow) in enumerate(wanted)
        if text in (within.text(entry).lower() if anyhow else within.text(entry))
    }


@given(wanted=literals, said=entries, piece_bytes=st.integers(1, 9))
@settings(max_examples=80, deadline=None)
def test_both_find_what_is_there(
    wanted: list[Literal], said: list[bytes], piece_bytes: int
) -> None:
    within = block(*said, between=(b"", b"a"))

    there = expected(wanted, within)

    assert pairs(HyperscanSearch(wanted, piece_bytes=piece_bytes), within) == there
    assert pairs(AutomatonSearch(wanted), within) == there


def test_of_long_literals_all_is_compared() -> None:
    long = b"0123456789" * 50
    wanted = [Literal(long), Literal(long[:-1] + b"X"), Literal(b"ab" * 40, caseless=True)]
    within = block(long[:-1], b"x" + long, b"AB" * 40, b"Ab" * 39 + b"A")

    assert pairs(AutomatonSearch(wanted), within) == {(1, 0), (2, 2)}


def test_more_is_found_than_fits_at_once() -> None:
    wanted = [Literal(bytes([letter])) for letter in b"abcdefgh"]
    within = block(*[b"hgfedcba"] * 2000)

    assert len(AutomatonSearch(wanted).find(within)[0]) == 16_000


def test_pairs_out_of_order_and_several_times_are_joined_to_each_term_once() -> None:
    ab, cd = Literal(b"ab"), Literal(b"cd")
    both = Need(alternatives=frozenset({frozenset({ab, cd})}))
    either = Need(alternatives=frozenset({frozenset({ab}), frozenset({cd})}))
    alternatives = LiteralIndex([both, None, either])

    within = block(b"cd", b"ab cd", b"ab")
    found = alternatives.terms(within, np.array([1, 0, 1, 1, 2]), np.array([0, 1, 1, 0, 0]))

    assert sorted(found.tolist()) == [0 * 3 + 2, 1 * 3 + 0, 1 * 3 + 2, 2 * 3 + 2]
