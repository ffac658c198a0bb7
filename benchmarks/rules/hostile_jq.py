"""Programs of jq, and lines of JSON, that take as much as they can."""

from __future__ import annotations

import random
from collections.abc import Iterator

__all__ = ["PROGRAMS", "lines"]

PROGRAMS = (
    '.a == "x"',
    '.kind == "Pod" and (.spec.nfs != null) and (.spec.volumes[]? | (.nfs != null or .b != null))',
    "any(.[]; . == 5)",
    "[..] | length > 5",
    ".. | . == 1",
    "[.. | tojson] | length",
    "map(tojson) | length",
    "sort | length",
    "unique|length",
    "group_by(.) | length",
    "sort_by(.) | length",
    "to_entries | length",
    "with_entries(.)",
    "map(with_entries(.))|length",
    'join(",") | length',
    "ascii_downcase | length",
    'split("a") | length',
    'split("")|length',
    ".[] - .[]",
    ". - .",
    ".[0] - .[1]",
    '.[0]|contains("b")',
    ".[0]|contains(.)",
    "contains(.)",
    "inside(.)",
    "index(.)",
    ".[0][.[1]]",
    ".[.]",
    'indices("aaaaaaab")|length',
    'test("b")',
    'test("aa.*b")',
    'test("a.*a.*b")',
    'test("[a-z]+b")',
    'test("error.*timeout")',
    'test("(a|b|c)a?a?a?a?a?b")',
    'test("a{0,50}b")',
    'test("aaaaaaaaaaaaaaaaaaaaaab")',
    'capture("(?<x>a*)(?<y>a*)")',
    'capture("(?<x>a+)b")',
    "[.[]|{a:.,b:.}]|length",
    "[.[]|[{},{},{}]]|length",
    "{a:.[],b:1}",
    '"\\(.) \\(.)"',
    '[.[]|"\\(.) x"]|length',
    ". + .",
    "tojson|tojson",
    "tojson|tojson|tojson",
    "@html",
    "@uri",
    "@sh",
    "@csv",
    '@json "\\(.)"',
    "add",
    "reverse",
    "keys",
    "min",
    "max_by(.)",
    "unique_by(.)",
    "first(.[])",
    "last(.[])",
    "limit(3;.[])",
    "isempty(.[])",
    ". == .",
    "[., .] | . == [.[0], .[1]]",
    "sort == .",
    ".[] == .[]",
    ".[] as $x | .[]",
    "map(select(. == 1)) | length",
    "any(. == 1)",
    "all",
    "any",
    "[.[][]?]|length",
    ".[][]?[]?[]?",
    "fromjson",
    ".[0]|fromjson",
    "map(tostring)|add",
    "map(. * 3)",
    ". * 100",
    '"a" * 1000',
    '.[0] / "a"',
    '. / "a"',
    "IN(.[])",
    "from_entries",
    "map({key:tostring,value:1})|from_entries",
    "try error(.) catch .",
    "[.[]?|try error catch .]|length",
    "if . then .[] else . end",
    'has("a")',
    'startswith("a")',
    'ltrimstr("a")',
    "trim",
    "tonumber",
    "[range(100)]",
    "range(1000)",
    '[range(100)|tostring]|join(",")',
    "-(.[]?)",
    ".[2:5]",
    ".[1:]|.[1:]",
    ".. == ..",
    "[.[]|.[]]",
    "[(.,.,.,.)|(.,.,.,.)]|length",
    "[.,.]|[.,.]|[.,.]|[.,.]|[.,.]",
    "map([.,.])|map([.,.])|length",
    "[paths]",
    "flatten",
    "values|length",
    "map(length)|add",
    "map(ascii_downcase)|length",
    'map(test("a"))|any',
    'map(test("aa.*b"))|any',
    'map(split("a"))|length',
    'map(startswith("a"))|any',
    "[.[]|keys]|length",
    "map(to_entries)|length",
    "sort_by(length)|length",
    "group_by(type)|length",
    "todate",
    "map(todate)",
    "map(fromdate?)",
    "map(tonumber?)",
    "tostring|ascii_downcase",
    ".a.b.c[0].d",
    '.["a"]["b"]',
    '."a"."b"',
    "map(@base64)|length",
    "@base64d",
    ".[0]|explode",
)


def lines(length: int) -> Iterator[tuple[str, str]]:
    """Return lines of about this length, by name."""
    yield from _arrays(length)
    yield from _texts(length)
    keys = ",".join(f'"{i:x}":0' for i in range(length // 9))
    yield "keys", f"{{{keys}}}"
    dice = random.Random(1)  # noqa: S311 - the same in each run
    yield "numbers", f"[{','.join(str(dice.randrange(10, 99)) for _ in range((length - 2) // 3))}]"


def _arrays(length: int) -> Iterator[tuple[str, str]]:
    thirty = ",".join(f'"{i:x}":0' for i in range(30))
    for each in (
        "0", "[]", "{}", '""', '"aaaa"', "1e99", '{"a":0}', '{"key":"a","value":0}',
        '"2020-01-01T00:00:00Z"', f"{{{thirty}}}", "[" * 31 + "0" + "]" * 31,
    ):  # fmt: skip
        yield f"array of {each[:24]}", _array(each, length)
    yield "two arrays", f"[{_array('0', length // 2 - 2)},{_array('1', length // 2 - 2)}]"
    yield "array in a text", f'["{_array("[]", length - 4)}"]'


def _texts(length: int) -> Iterator[tuple[str, str]]:
    half = (length - 7) // 2
    yield "text", f'"{"a" * (length - 2)}"'
    yield "array of a text", f'["{"a" * (length - 4)}"]'
    yield "array of two texts", f'["{"a" * half}","{"a" * half}"]'
    yield "escapes", '"' + '\\"' * ((length - 2) // 2) + '"'
    yield "control characters", f'"{chr(127) * (length - 2)}"'
    yield "control characters in an array", f'["{chr(127) * (length - 4)}"]'
    yield "letters of two bytes", f'"{"é" * ((length - 2) // 2)}"'
    yield "words", f'"{("error time" * (length // 10))[: length - 2]}"'


def _array(of: str, length: int) -> str:
    return f"[{','.join([of] * max(1, (length - 2) // (len(of) + 1)))}]"
