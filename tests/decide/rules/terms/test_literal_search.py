"""Which literals are searched for depends on the logs that were read; what is found does not."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from decide.rules.terms.blocks import block
from steward.decide.rules.terms.literal_index import LiteralIndex
from steward.decide.rules.terms.literal_search import LiteralSearch
from steward.decide.rules.terms.literals import Literal, Need
from steward.decide.rules.terms.search import HyperscanSearch

words = st.sampled_from([Literal(b"handshake"), Literal(b"ssl", caseless=True), Literal(b"bad")])
sets = st.frozensets(words, min_size=1)
needs = st.lists(
    st.none()
    | st.frozensets(sets, min_size=1, max_size=2).map(lambda each: Need(alternatives=each)),
    min_size=1,
    max_size=4,
)
entries = st.lists(st.sampled_from([b"handshake ", b"SSL ", b"ssl ", b"bad ", b"x"]), max_size=5)
logs = st.lists(st.lists(entries.map(b"".join), max_size=5), min_size=1, max_size=6)


def both(*literals: Literal) -> Need:
    return Need(alternatives=frozenset({frozenset(literals)}))


@given(wanted=needs, read=logs, accelerate=st.booleans())
@settings(max_examples=60, deadline=None)
def test_what_is_found_does_not_depend_on_what_was_read_before(
    *, wanted: list[Need | None], read: list[list[bytes]], accelerate: bool
) -> None:
    search = LiteralSearch(wanted, accelerate=accelerate, check_bytes=1)
    index = LiteralIndex(wanted)
    fresh = HyperscanSearch(index.literals)

    for texts in read:
        within = block(*texts)
        expected = index.terms(within, *fresh.find(within))
        assert sorted(search.terms(within).tolist()) == sorted(expected.tolist())


def test_a_literal_that_is_in_every_line_gives_way_to_a_rarer_one_of_its_set() -> None:
    handshake, bad = Literal(b"handshake"), Literal(b"bad")
    search = LiteralSearch([both(handshake, bad)], accelerate=True, check_bytes=1)
    assert search.literals == (handshake,)

    search.terms(block(*[b"handshake"] * 50, b"bad handshake"))

    assert search.literals == (bad,)
    assert search.terms(block(b"handshake", b"bad", b"bad handshake")).tolist() == [2]


def test_a_literal_without_a_rarer_one_in_its_set_stays() -> None:
    handshake, bad = Literal(b"handshake"), Literal(b"bad")
    search = LiteralSearch([both(handshake, bad)], accelerate=True, check_bytes=1)

    search.terms(block(*[b"bad handshake"] * 50))

    assert search.literals == (handshake,)


def test_literals_are_chosen_anew_after_twice_as_many_bytes_each_time() -> None:
    handshake, bad = Literal(b"handshake"), Literal(b"bad")
    search = LiteralSearch([both(handshake, bad)], accelerate=True, check_bytes=100)
    much, little = block(*[b"handshake"] * 20), block(*[b"handshake"] * 5)

    search.terms(little)
    assert search.literals == (handshake,)
    search.terms(much)
    assert search.literals == (bad,)

    search.terms(block(*[b"bad"] * 10))
    assert search.literals == (bad,)
    search.terms(block(*[b"bad"] * 90))
    assert search.literals == (handshake,)
