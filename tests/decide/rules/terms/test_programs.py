"""What jq programs cost: hostile programs on hostile lines stay within bounds, or are refused."""

from __future__ import annotations

import json
import time

import pytest

from decide.rules.terms.blocks import block, jq, value
from steward.decide.rules.terms import Prefilter
from steward.decide.rules.terms.programs import Program
from steward.errors import StewardError

# Programs that take as much as they can, each on the line that is worst for it.
WORST = {
    ".. | . == 1": "lists",
    "[.. | tojson] | length": "deep",
    "sort | length": "objects",
    "unique_by(.) | length": "objects",
    "group_by(type) | length": "numbers",
    "to_entries | map(.value) | add": "numbers",
    "with_entries(.)": "keys",
    'join(",")': "numbers",
    "ascii_downcase": "text",
    'split("")': "text",
    ".[0] - .[1]": "two lists",
    "contains(.)": "numbers",
    'test("aa.*b")': "text",
    'test("(?i)[a-z]+b"; "i")': "text",
    'test("(aaa){2}|a?a?b|a{2,5}c|a{,3}d|aa")': "text",
    'test("a{2,}b")': "text",
    '{(.[0] | tostring): 1, "b": 2, c: .[0] | length | . + 1, @text "d": 3, e}': "numbers",
    'ltrimstr("a") | rtrimstr("b")': "text",
    'capture("(?<x>a+)b")': "text",
    '"\\(.) \\(.)"': "text",
    "tojson | tojson": "escapes",
    "@uri": "escapes",
    "map({a: ., b: [{}, {}]}) | length": "numbers",
    "map([., .]) | map([., .])": "numbers",
    "[(., ., .) | (., ., .)] | length": "lists",
    "map(todate)": "numbers",
    '. * 20 | test("b")': "text",
    '. / "a"': "text",
    "[.[] | try length] | reverse": "lists",
    "map(-. + 1 - 1 % 7)": "numbers",
    "[.[] | try error(.) catch .] | length": "objects",
    "[.[]? | if . then 1 elif . == 2 then 2 else 3 end, if . then . end] | length": "numbers",
    "any(.[]; . == 5) and all(. == 1) or isempty(.[])": "numbers",
    '.[0]."a"?.["b"]?[1:3] // .[1].[0]? | has("a")': "objects",
    "first(.[]), last(.[]), limit(3; .[]), [range(5; 9)][0], IN(1, 2)": "numbers",
    "[.[] | try error catch 1] | length": "numbers",
    "[] == {} # a remark": "numbers",
    "indices(5), index(1)": "numbers",
}


def line(kind: str, length: int) -> bytes:
    half = (length - 8) // 4
    by_kind = {
        "numbers": f"[{','.join('0' * (length // 2 - 1))}]",
        "lists": f"[{','.join(['[]'] * (length // 3 - 1))}]",
        "objects": f"[{','.join(['{}'] * (length // 3 - 1))}]",
        "keys": json.dumps({f"{n:x}": 0 for n in range(length // 10)}),
        "deep": f"[{','.join(['[' * 30 + ']' * 30] * (length // 61 - 1))}]",
        "text": f'"{"a" * (length - 2)}"',
        "escapes": '"' + '\\"\x7f' * (length // 3 - 2) + '"',
        "two lists": f"[[{','.join('0' * half)}],[{','.join('1' * half)}]]",
    }
    return by_kind[kind].encode()


@pytest.mark.parametrize("program", WORST)
def test_no_program_takes_long_on_the_longest_line_that_it_is_given(program: str) -> None:
    found = Program(program)
    entry = line(WORST[program], found.longest_bytes)

    took_s = min(_cpu_s(found, entry) for _ in range(3))

    assert len(entry) > 0.8 * found.longest_bytes
    assert took_s < 1  # without bounds: seconds to hours; `benchmarks/rules_jq.py` measures it


def _cpu_s(program: Program, entry: bytes) -> float:
    began_s = time.process_time()
    program.first(entry)
    program.passes(entry)
    return time.process_time() - began_s


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (".[] == .[]", "even on a line of 1 KiB"),
        ("map(map(map(map(.[] + .[]))))", "even on a line of 1 KiB"),
        ("range(1000) | range(1000)", "even on a line of 1 KiB"),
        ('"a" * 1000000000', "even on a line of 1 KiB"),
        (" | ".join([".+."] * 40), "even on a line of 1 KiB"),
        (" | ".join(["(.,.)"] * 40), "even on a line of 1 KiB"),
        (" | ".join(["[.,.]"] * 40), "even on a line of 1 KiB"),
        (" | ".join(["tojson"] * 9), "even on a line of 1 KiB"),
        ("{a: .[], b: .[], c: .[], d: .[], e: .[]}", "even on a line of 1 KiB"),
        ("index(.)", "even on a line of 1 KiB"),
        (".[.]", "even on a line of 1 KiB"),
        (".a * .b", "`*` between values that are not known"),
        ('test("a.*a.*b")', "even on a line of 1 KiB"),
        ('test("a*a*a*b")', "may take very long"),
        ('test("(a+)+$")', "may take very long"),
        ('test("(a|a)*$")', "may take very long"),
        ('test("(a?){50}$")', "may take very long"),
        ('test("a{1,2}+$")', "may take very long"),
        ('test("(a)\\\\1")', "may take very long"),
        ('test("(?=a)b")', "may take very long"),
        ("test(.p)", "a pattern that is not written out"),
        ("test(5)", "a pattern that is not written out"),
        ('test("a"; "g")', "or its flags"),
        ('test("a"; "x")', "or its flags"),
        ("limit(.n; .[])", "`limit` without a number"),
        (".. | fromjson", "how deep"),
        ('[match("a"; "g")]', "`match`, which may take very long"),
        (".a as $x | $x", "`as`, which makes the cost"),
        (".a = 1", "`=`, which changes the entry"),
        (".a |= 1", "`|=`, which changes the entry"),
        ("[.a, .b += 1]", "`+=`, which changes the entry"),
        ("$__loc__", "looks outside"),
        ("{$__loc__}", "looks outside"),
        ("(.a as [$b] ?// $b | 1)", "`as`"),
        ("paths", "`paths`, which is not known here"),
        ('"\\(.a as $b | 1)"', "`as`"),
        ("(" * 50 + "." + ")" * 50, "parts inside one another"),
        ("1 # \\\n + repeat(1)", "`#`"),
    ],
)
def test_what_has_no_useful_bound_is_refused_with_the_reason(program: str, said: str) -> None:
    with pytest.raises(StewardError) as refused:
        Program(program)

    assert said in refused.value.problem
    assert refused.value.hint


@pytest.mark.parametrize(
    ("program", "least_bytes"),
    [
        ('.kind == "Pod" and .spec.nfs != null', 32_768),
        ('.log | fromjson | .level == "error"', 32_768),
        ("(.end | tonumber) - (.start | tonumber) > 5", 32_768),
        ('.items[] | select(.a == "x" and .b > 3) | .c', 8192),
        ('.status.containerStatuses[].state.waiting.reason == "CrashLoopBackOff"', 16_384),
        ('.message | test("error.*timeout")', 3072),
        ('.message | ascii_downcase | contains("error")', 8192),
    ],
)
def test_what_people_write_is_taken_on_lines_as_long_as_they_come(
    program: str, least_bytes: int
) -> None:
    assert Program(program, only_asks=True).longest_bytes >= least_bytes


def test_a_line_that_is_too_long_for_a_program_is_not_given_to_it_and_counted() -> None:
    terms = [jq(".a == 1"), value('"a"')]
    long = json.dumps({"a": 1, "b": "x" * 40_000}).encode()

    found = Prefilter(terms).find(block(b'{"a": 1}', long, b"x" * 40_000))

    pairs = list(zip(found.entry.tolist(), found.term.tolist(), strict=True))
    assert pairs == [(0, 0), (0, 1), (1, 1)]
    assert found.too_long == 1
    assert not Program(".a == 1").passes(long)
    assert Program(".a").first(long) is None


def test_a_value_that_is_nested_too_deeply_is_no_entry() -> None:
    def nested(levels: int) -> bytes:
        return b'{"a":' * levels + b"1" + b"}" * levels

    assert Program(".a").passes(nested(32))
    assert not Program(".a").passes(nested(33))
    assert Program("length").passes(b"[" + b",".join([b"[]"] * 40) + b"]")
