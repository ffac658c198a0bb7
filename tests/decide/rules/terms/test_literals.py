"""What a pattern or a program needs, and where nothing is certain."""

from __future__ import annotations

import pytest

from steward.decide.rules.terms.jq_program import needed_by_program
from steward.decide.rules.terms.syntax import needed_by


def alternatives(pattern: str) -> set[frozenset[bytes]]:
    need = needed_by(pattern)
    assert need is not None
    return {frozenset(each.text for each in literal_set) for literal_set in need.alternatives}


def one(*texts: bytes) -> set[frozenset[bytes]]:
    return {frozenset(texts)}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("disk full", one(b"disk full")),
        ("disk.*full", one(b"disk", b"full")),
        (r"disk (is|was)?full", one(b"disk full") | one(b"disk isfull") | one(b"disk wasfull")),
        ("ab{1}c{2}", one(b"abcc")),
        ("(disk|file) full", one(b"disk full") | one(b"file full")),
        ("connection.*refused|timed out", one(b"connection", b"refused") | one(b"timed out")),
        ("https?://", one(b"http://") | one(b"https://")),
        ("ab{2,3}c", one(b"abbc") | one(b"abbbc")),
        ("(abcd)+", one(b"abcd")),
        (r"\Qa.b\Ec", one(b"a.bc")),
        (r"\x41\x{42}\103\n\.", one(b"ABC\n.")),
        ("[eE]rr", one(b"err") | one(b"Err")),
        ("[]a]bc", one(b"]bc") | one(b"abc")),
        ("a{,2}b", one(b"a{,2}b")),
        ("(?P<x>ab)(?<y>cd)(?:ef)(?s-m:gh)", one(b"abcdefgh")),
        (
            "first.*second one.*third one.*fourth one",
            one(b"second one", b"third one", b"fourth one"),
        ),
        ("longest of them.*x", one(b"longest of them")),  # a letter says nothing
    ],
)
def test_what_every_match_contains(pattern: str, expected: set[frozenset[bytes]]) -> None:
    assert alternatives(pattern) == expected


@pytest.mark.parametrize(
    "pattern",
    [r"\d+", "a", "(abc)?", "(abc)*", "abc|", "[a-z]+", "[^a]{5}", ".", r"\pL\p{Greek}", r"\w\W",
     r"\Qab\E+", "(ab)(?i)*", "(?i)é", "\ufffd\ufffd", "(" * 60 + "abc" + ")" * 60,
     "|".join(f"({number:04d}|x{number:04d})" for number in range(150))],
)  # fmt: skip
def test_where_nothing_is_certain_nothing_is_said(pattern: str) -> None:
    assert needed_by(pattern) is None


@pytest.mark.parametrize("pattern", ["(?#x)ab", "ab)", "(ab", "[ab", r"\gab", "ab**"])
def test_what_the_reader_does_not_know_counts_as_anything(pattern: str) -> None:
    assert needed_by(pattern) is None


def test_only_plain_strings_are_enough() -> None:
    enough = {
        pattern: need.enough
        for pattern in ["ab|cd", "^ab", "ab$", r"\bab", "ab.", "(?i)ab", "a[bc]"]
        if (need := needed_by(pattern))
    }

    assert [pattern for pattern, is_enough in enough.items() if is_enough] == ["ab|cd", "a[bc]"]
    assert len(enough) == 7


def test_without_case_letters_that_fold_to_ascii_are_another_way() -> None:
    assert alternatives("(?i)Disk") == one(b"disk") | one("\u212a".encode()) | one(
        "\u017f".encode()
    )
    assert alternatives("(?i)Loop 1") == one(b"loop 1")
    assert alternatives("(?i:lo)OP(?i)(?-i)N") == one(b"loopn")


def test_products_that_grow_too_large_are_cut_at_their_longest_part() -> None:
    assert alternatives("[abcdefghijklmnopq]" * 2 + "tail end") == one(b"tail end")
    assert alternatives("[abcd][efgh][ijkl]tail") == {
        frozenset({bytes([letter]) + b"tail"}) for letter in b"ijkl"
    }


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ('.kind == "Pod"', b"Pod"),
        (' .spec.name=="web server" ', b"web server"),
        ('.kind == "Pod" and (.a != null or .b)', b"Pod"),
        ('.kind == "Pod" and .x == "or, |"', b"Pod"),
        ('.path == "/var/lib/x"', b"var"),
    ],
)
def test_what_a_program_needs(program: str, expected: bytes) -> None:
    need = needed_by_program(program)

    assert need is not None
    assert {each.text for literal_set in need.alternatives for each in literal_set} == {
        expected,
        b"\\u",
    }
    assert not need.enough


@pytest.mark.parametrize(
    "program",
    [".", '.kind == "Po"', '.kind == "Pod" or true', '.kind == "Pod", true', '.kind == "Pod" | not',
     '.kind == "Pod" and .a | not', '.kind == "Pod" and .a // true', '.kind == "Pod" == false',
     '.kind == "\\u0050od"', '.kind == "é"'],
)  # fmt: skip
def test_programs_of_which_nothing_is_certain(program: str) -> None:
    assert needed_by_program(program) is None
