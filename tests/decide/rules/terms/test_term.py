"""One term on one entry, as preq tests it; and what is refused, with which words."""

from __future__ import annotations

import pytest

from decide.rules.terms.blocks import jq, regex, value
from steward.decide.rules.terms import compile_extract, compile_term
from steward.errors import StewardError
from steward.model.rules import Extract, Term


def holds(term: Term, text: bytes | str) -> bool:
    return compile_term(term)(text.encode() if isinstance(text, str) else text)


def taken(kind: str, text: str, entry: bytes, *, name: str = "it") -> str | None:
    return compile_extract(Extract(name=name, kind=kind, text=text))(entry)  # type: ignore[arg-type]


# -- values and regular expressions ---------------------------------------------------------------


def test_a_value_is_a_substring_with_case_and_with_all_its_signs() -> None:
    assert holds(value("a.*b"), "xa.*bx")
    assert not holds(value("a.*b"), "xaxb")
    assert not holds(value("Error"), "error")
    assert holds(value("é"), "café")


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("b+c", "abbcd", True),
        ("^abc$", "abc", True),
        ("^abc$", "abc\n", False),  # `$` is the very end
        ("^b", "a\nb", False),
        ("(?m)^b", "a\nb", True),
        ("a.b", "a\nb", True),  # a folded entry is one text
        ("(?-s)a.b", "a\nb", False),
        (r"a\z", "a", True),
        (r"\d", "٣", False),  # ASCII classes
        (r"\Qa.b\E", "a.b", True),
        ("[[:upper:]]{2}", "aBC", True),
        ("(?i)straße", "STRAßE", True),
        ("^.$", "é", True),
        (".*disk.*full.*", "the disk is full now", True),
        (".*", "", True),
        (r"x\.*", "x", True),
        (r"disk\.*", "dis", False),
        ("a(?i)B", "ab", True),
        ("a(?i)B", "Ab", False),
    ],
)
def test_patterns_mean_what_they_mean_in_go(pattern: str, text: str, *, expected: bool) -> None:
    assert holds(regex(pattern), text) is expected


def test_a_byte_that_is_no_utf8_counts_as_one_letter() -> None:
    assert holds(regex("^a.b$"), b"a\xffb")
    assert holds(regex("^a..b$"), b"a\xe2\x82b")
    assert not holds(regex("^a.b$"), b"a\xe2\x82b")
    assert holds(regex("\ufffd"), b"\xff")


def test_nested_repetitions_which_take_others_years_are_searched() -> None:
    assert not holds(regex("(a*)*(a|aa)+(a?){50}b"), b"a" * 1_000_000)


@pytest.mark.parametrize(
    ("term", "said", "hint"),
    [
        (regex("(a"), "missing ): (a", "RE2"),
        (regex("a(?=b)"), "invalid perl operator", "no look-ahead"),
        (regex(r"(a)\1"), "invalid escape sequence", "references back"),
        (regex("(x{1000}){1000}"), "invalid repetition size", "RE2"),
        (regex("a\ud800"), "surrogate", "character itself"),
        (value("a\ud800"), "surrogate", "character itself"),
        (value(""), "the value of a term is empty", "must contain"),
        (regex(""), "the regex of a term is empty", "must contain"),
        (jq(".a |"), "syntax error", "try it with `jq`"),
        (jq("nosuch(1)"), "nosuch/1 is not defined", "try it with `jq`"),
        (jq("repeat(.)"), "`repeat`, which may never end", "in quotes"),
        (jq("[.[] | until(. > 9; . + 0)]"), "`until`, which may never end", "in quotes"),
        (jq("range(.n)"), "`range`, which may never end", "up to 1000"),
        (jq("range(5; .n)"), "`range`", "up to 1000"),
        (jq("range(0; 9; 0)"), "`range`", "up to 1000"),
        (jq("range(1e12)"), "`range`", "up to 1000"),
        (jq("reduce .[] as $i (.; . + .)"), "`reduce`, which may grow without end", "in quotes"),
        (jq("foreach .[] as $i (.; . + .)"), "`foreach`, which may grow", "in quotes"),
        (jq("setpath([.n]; 1)"), "`setpath`, which may grow", "in quotes"),
        (jq("recurse(.)"), "`recurse`", "`..`"),
        (jq("recurse # well\n (.)"), "`recurse`", "`..`"),
        (jq("def f: f; f"), "`def`", "in quotes"),
        (jq('"\\(repeat(.))"'), "`repeat`", "in quotes"),
        (jq('"\\(1)" | repeat(1) | "x"'), "`repeat`", "in quotes"),
        (jq('1 # "\n| repeat(1) # "'), "`repeat`", "in quotes"),
        (jq("$ENV.HOME"), "`$ENV`, which looks outside the entry", "in quotes"),
        (jq("now > .t"), "`now`, which looks outside", "in quotes"),
        (jq('import "a" as a; 1'), "`import`", "in quotes"),
        (jq("." * 10_001), "10001 characters", "shorter"),
    ],
)
def test_what_cannot_be_run_is_refused_with_the_reason(term: Term, said: str, hint: str) -> None:
    with pytest.raises(StewardError) as refused:
        compile_term(term)

    assert said in refused.value.problem
    assert hint in refused.value.hint


# -- jq -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "text", "expected"),
    [
        (".a", '{"a": 1}', True),
        (".a", '{"a": 0}', True),
        (".a", '{"a": null}', False),
        (".a", '{"a": false}', False),
        (".a", "no JSON", False),
        (".", "1 2", False),  # one value, not two
        (".", "", False),
        (".", "NaN", False),
        (".a", "[1]", False),  # an error
        ("true, error", "1", False),  # an error in between is a no
        ("true, halt", "1", True),  # halt keeps what there is
        ("halt", "1", False),
        ("empty", "1", False),
        ("false, null, 0", "1", True),
        (".repeat", '{"repeat": 1}', True),  # a field, not the function
        ('.["while"]', '{"while": 1}', True),
        ('{"range": .a}', '{"a": 1}', True),
        ("[range(3)] | length == 3", "1", True),
        ("[range(1; 1000)] | length == 999", "1", True),
        ("[..] | length == 3", "[1, 2]", True),
        ('test("a+$")', '"' + "a" * 40 + 'b"', False),
        (".a", '{"a": "\ud800"}'.encode("utf-8", "surrogatepass").decode("latin-1"), True),
    ],
)
def test_a_program_passes_with_an_output_that_is_neither_null_nor_false(
    program: str, text: str, *, expected: bool
) -> None:
    assert holds(jq(program), text) is expected


def test_json_nested_beyond_reason_is_no_json() -> None:
    assert not holds(jq("."), b"[" * 15_000 + b"]" * 15_000)


def test_bad_bytes_in_json_are_replaced() -> None:
    assert holds(jq('.a == "\ufffd"'), b'{"a": "\xff"}')


# -- extracts -------------------------------------------------------------------------------------


def test_an_extract_gives_the_group_of_its_name_else_the_first_else_all() -> None:
    entry = b"GPU 3 of node7 failed"

    assert taken("regex", r"node\d", entry) == "node7"
    assert taken("regex", r"(GPU) (\d)", entry) == "GPU"
    assert taken("regex", r"(?P<x>GPU) (?P<it>\d)", entry) == "3"
    assert taken("regex", r"CPU (\d)", entry) is None
    assert taken("regex", r"GPU (x)?", entry) is None
    assert taken("regex", r"x(.)", "xé".encode()) == "é"


def test_an_extract_by_jq_gives_the_first_output_that_is_not_null_as_text() -> None:
    entry = '{"gpu": 3, "node": "é7", "list": [1, "ü"], "ok": false}'.encode()

    assert taken("jq", ".node", entry) == "é7"
    assert taken("jq", ".gpu", entry) == "3"
    assert taken("jq", ".missing, .list", entry) == '[1,"ü"]'
    assert taken("jq", ".ok", entry) == "false"
    assert taken("jq", ".missing", entry) is None
    assert taken("jq", ".node.x", entry) is None
    assert taken("jq", ".node", b"no JSON") is None


def test_an_extract_that_does_not_compile_is_refused() -> None:
    with pytest.raises(StewardError, match="does not compile"):
        taken("regex", "(", b"")
