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


# What could take long, grow without end, look outside of the entry, or read files.
UNSUPPORTED = (
    "nosuch(1)", "repeat(.)", "range(1e12)", "reduce .[] as $i (.; . + .)", "recurse(.)", "..",
    "def f: f; f", '"\\(repeat(.))"', '1 # "\n| repeat(1) # "', "$ENV.HOME", "now > .t", "input",
    'import "a" as a; 1', "(., .) | (., .)", ".a * 1000", ".a - .b", "[.[]]", "{a: 1}",
    'test("(a+)+b")', "tojson", ".a[1:3]", ".a |= 1", "env", "any(.[]; .)", "-(1)",
)  # fmt: skip


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
        (jq(".a ("), "syntax error", "try it with `jq`"),
        *((jq(each), "which is not supported", "docs/rules/terms.md") for each in UNSUPPORTED),
        (jq(".a[] == .b[]"), "more than one list", "one path"),
        (jq(".a | contains(.)"), "with a text only", 'contains("text")'),
        (jq(" and ".join([".a"] * 101)), "201 tokens", "shorter"),
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
        (".a[]", '{"a": [false, null, 0]}', True),
        (".a[] | .b == 2", '{"a": [{"b": 1}, {"b": 2}]}', True),
        (".a[]?.b[0]", '{"a": [{"b": [1]}]}', True),
        (".repeat", '{"repeat": 1}', True),  # a field, not the function
        ('.["while"]."or|"', '{"while": {"or|": 1}}', True),
        (".a < -1.5 or (.b | not)", '{"a": -2, "b": 1}', True),
        ('.a | ascii_downcase | startswith("dis")', '{"a": "DISK"}', True),
        ('select(.a | contains("[]"))', '{"a": "x[] y"}', True),
        ('(.a // "no") | length == 2', "{}", True),
        (".a", '{"a": "\ud800"}'.encode("utf-8", "surrogatepass").decode("latin-1"), True),
    ],
)
def test_a_program_passes_with_an_output_that_is_neither_null_nor_false(
    program: str, text: str, *, expected: bool
) -> None:
    assert holds(jq(program), text) is expected


def test_json_nested_beyond_reason_is_no_json() -> None:
    assert not holds(jq("."), b"[" * 15_000 + b"]" * 15_000)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (b"[" * 33 + b"]" * 33, True),
        (b"[" * 34 + b"]" * 34, False),
        (b'{"a":' * 34 + b"1" + b"}" * 34, False),
        (b"[" + b"[]," * 40 + b"1]", True),
    ],
)
def test_values_are_taken_up_to_a_depth_of_32(entry: bytes, *, expected: bool) -> None:
    assert holds(jq("."), entry) is expected


def test_entries_of_more_than_32_kib_are_not_given_to_a_program() -> None:
    assert holds(jq("."), b'"' + b"x" * 32_766 + b'"')
    assert not holds(jq("."), b'"' + b"x" * 32_767 + b'"')


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
    assert taken("jq", ".missing // .list", entry) == '[1,"ü"]'
    assert taken("jq", ".ok", entry) == "false"
    assert taken("jq", ".missing", entry) is None
    assert taken("jq", ".node.x", entry) is None
    assert taken("jq", ".node", b"no JSON") is None


def test_an_extract_that_does_not_compile_is_refused() -> None:
    with pytest.raises(StewardError, match="does not compile"):
        taken("regex", "(", b"")
