"""The prefilter finds what testing each term on each entry finds, with either search."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decide.rules.terms.blocks import block, found, jq, one_by_one, regex, value
from steward.decide.rules.terms import Prefilter, compile_term
from steward.errors import StewardError
from steward.model.rules import LogBlock, Term

WAYS = pytest.mark.parametrize("accelerate", [True, False], ids=["hyperscan", "automaton"])

# Words that lie inside one another, in both cases, with signs that mean something somewhere, and
# letters that other letters fold to.
PIECES = ["a", "ab", "aba", "B", "Ab", "k", "K", "s", "\u212a", "\u017f", "é", "É", "\ufffd", " ",
          "0", "1", "_", ".", "\n", "\t", "\r", "\x00", "\\", "/", '"', "{", "}", "[", "]", "-",
          "error", "disk", "kiss", "ß", "\U0001f600"]  # fmt: skip
RAW = [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f", *(each.encode() for each in PIECES)]
JSON = [b"{}", b'{"a":"disk"}', b'{"a":"d\\u0069sk"}', b' {"a": "disk", "b": 1} ', b"null", b"12",
        b'"disk"', b"[1, 2]", b"true", b"1 2", b"-",
        b'{"a":{"b":"di\\/sk"}}', b'{"a":NaN}']  # fmt: skip
PROGRAMS = [".", ".a", '.a == "disk"', '.a == "disk" and .b', '.a == "disk" | true', ".a | not",
            '.a == "disk" or .b', '.a == "di/sk"', '.a.b == "di/sk"', ".[0]?", ".a[]?",
            '.a == "disk" and (.b // 0) != 0', 'select(.a == "disk")']  # fmt: skip

entries = st.one_of(st.lists(st.sampled_from(RAW), max_size=8).map(b"".join), st.sampled_from(JSON))
blocks = st.builds(
    lambda texts, between: block(*texts, between=between),
    st.lists(entries, max_size=8),
    st.lists(st.sampled_from([b"", b"\n", b"ab", b"error ", b"\r\n", b"\xc3"]), min_size=1),
)

atoms = st.one_of(
    st.sampled_from(PIECES).map(lambda text: "".join(f"\\x{{{ord(each):x}}}" for each in text)),
    st.sampled_from(["a", "ab", "aba", "error", "kiss", "disk", "é", "\ufffd", ".", "[aB]", "[^a]",
                     "[a-k]", "\\d", "\\w", "\\s", "\\S", "\\b", "\\B", "^", "$", "\\A", "\\z",
                     "(?i)", "(?-s)", "(?m)", "[[:alpha:]]", "\\pL", "\\Qa.\\E", "[ks]", "[]a]",
                     "\\x41", "\\101", "\\n", "\\C", "-", "{", "(?i:disk)", "(?i:k)iss"]),
)  # fmt: skip
patterns = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        inner.map(lambda each: f"({each})"),
        st.tuples(
            inner, st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,3}", "{0,2}", "{2,}"])
        ).map(lambda pair: f"(?P<n>{pair[0]}){pair[1]}" if "|" in pair[0] else "".join(pair)),
    ),
    max_leaves=8,
)


def compiles(term: Term) -> bool:
    try:
        compile_term(term)
    except StewardError:
        return False
    return True


terms = st.one_of(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=3).map("".join).map(value),
    st.one_of(patterns, patterns.map(lambda text: f".*{text}.*")).map(regex).filter(compiles),
    st.sampled_from(PROGRAMS).map(jq),
)


@WAYS
@given(wanted=st.lists(terms, max_size=6), within=blocks)
@settings(max_examples=60, deadline=None)
def test_it_finds_what_testing_one_by_one_finds(
    *, accelerate: bool, wanted: list[Term], within: LogBlock
) -> None:
    prefilter = Prefilter(wanted, accelerate=accelerate)

    assert found(prefilter, within) == one_by_one(wanted, within)


@WAYS
def test_a_literal_across_two_entries_is_in_neither(*, accelerate: bool) -> None:
    within = block(b"disk", b"full", between=(b"",))

    assert found(Prefilter([value("kfu"), value("full")], accelerate=accelerate), within) == [
        (1, 1)
    ]


@WAYS
def test_an_empty_entry_is_tested_apart_from_the_one_that_begins_where_it_does(
    *, accelerate: bool
) -> None:
    within = block(b"", b"7", between=(b"",))

    assert found(Prefilter([regex(r"\d")], accelerate=accelerate), within) == [(1, 0)]


@WAYS
def test_what_lies_between_entries_means_nothing(*, accelerate: bool) -> None:
    within = block(b"started", b"stopped", between=(b"2025 error ",))

    assert found(Prefilter([value("error"), regex("^st.*ed$")], accelerate=accelerate), within) == [
        (0, 1),
        (1, 1),
    ]


@WAYS
def test_anchors_and_word_borders_are_those_of_the_entry(*, accelerate: bool) -> None:
    within = block(b"error", between=(b"x",))

    assert (
        len(Prefilter([regex(r"^error$"), regex(r"\berror\b")], accelerate=accelerate).find(within))
        == 2
    )


@WAYS
def test_a_folded_entry_is_one_text_and_a_dot_reaches_over_its_lines(*, accelerate: bool) -> None:
    within = block(b"Traceback\n  File x\nValueError: bad")

    prefilter = Prefilter(
        [regex("Traceback.*ValueError"), regex("^ValueError")], accelerate=accelerate
    )

    assert found(prefilter, within) == [(0, 0)]


@WAYS
def test_letters_that_fold_to_ascii_are_found_without_case(*, accelerate: bool) -> None:
    within = block("dis\u212a \u017ftall".encode(), b"DISK STALL")

    assert found(Prefilter([regex("(?i)disk stall")], accelerate=accelerate), within) == [
        (0, 0),
        (1, 0),
    ]


@WAYS
def test_nothing_is_found_in_nothing(*, accelerate: bool) -> None:
    prefilter = Prefilter([value("a"), regex(".*"), jq(".")], accelerate=accelerate)

    assert len(prefilter.find(block())) == 0
    assert len(Prefilter([], accelerate=accelerate).find(block(b"a"))) == 0


@WAYS
def test_equal_terms_are_both_found(*, accelerate: bool) -> None:
    assert found(Prefilter([value("x"), value("x")], accelerate=accelerate), block(b"x")) == [
        (0, 0),
        (0, 1),
    ]


def test_many_terms_may_want_the_same_word() -> None:
    wanted = [value("disk")] * 200

    assert len(Prefilter(wanted).find(block(b"no disk 7", b"disc"))) == 200


@WAYS
def test_a_line_of_100_mb_is_searched_before_the_test_is_given_up(
    *,
    accelerate: bool,
) -> None:
    line = b"a" * (50 << 20) + b"x" + b"aab " * (12 << 20) + b"disk full"
    wanted = [value("a"), value("aab"), regex("(?i)DISK.*f"), regex("(a+)+x")]

    pairs = found(Prefilter(wanted, accelerate=accelerate), block(line, b"disk"))

    # Time that grows with more than its length would be hours.
    assert pairs == [(0, number) for number in range(4)]


def test_text_that_is_full_of_literals_is_searched_in_another_way_with_the_same_result() -> None:
    busy = block(*(b"=" * 5000 if number % 2 else b"-- disk" for number in range(40)))
    calm = block(b"-- disk", b"====", b"disc")
    wanted = [value("=="), value("="), value("disk"), regex("(?i)={3}"), regex("d.sk")]
    prefilter = Prefilter(wanted, accelerate=True)

    seen = [found(prefilter, each) for each in [calm, busy, *[calm] * 20, busy]]

    expected = [one_by_one(wanted, each) for each in (calm, busy)]
    assert seen == [*expected, *[expected[0]] * 20, expected[1]]


@WAYS
@pytest.mark.parametrize("shared", [True, False])
def test_threads_may_share_a_prefilter(*, accelerate: bool, shared: bool) -> None:
    busy = block(*(b"=" * 5000 if number % 2 else b"-- disk" for number in range(40)))
    calm = block(*(b"nothing %d {} disk" % number for number in range(2000)))
    wanted = [value("disk"), regex("(?i)={3}"), regex("d.sk"), jq(".a"), value("1 {")]
    prefilter = Prefilter(wanted, accelerate=accelerate)
    expected = [one_by_one(wanted, each) for each in (calm, busy)]

    with ThreadPoolExecutor(4) as pool:
        found_by = partial(found, prefilter, shared=shared)
        seen = list(pool.map(found_by, [calm, busy] * 20))

    assert seen == expected * 20


def test_terms_for_which_nothing_is_certain_are_told() -> None:
    prefilter = Prefilter([regex(r"\d+"), value("x"), jq(".a"), jq('.a == "disk"'), regex("ab.")])

    assert prefilter.unfiltered == (regex(r"\d+"), jq(".a"))


def test_a_term_that_does_not_compile_is_refused() -> None:
    with pytest.raises(StewardError, match="does not compile"):
        Prefilter([regex("(a")])


def test_pairs_are_sorted_and_of_64_bits() -> None:
    pairs = Prefilter([value("b"), value("a")]).find(block(b"ab", b"ba"))

    assert pairs.entry.dtype == pairs.term.dtype == np.int64
    assert (pairs.entry.tolist(), pairs.term.tolist()) == ([0, 0, 1, 1], [0, 1, 0, 1])
