"""jq terms: the part of the language in which a program takes time in proportion to the entry.

jq runs in C inside of this process and cannot be stopped. So only what is linear by construction is
accepted: paths with at most one iteration, literals, comparisons and a few functions
(`docs/decisions/0030-simple-jq.md`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

import jq

from steward.decide.rules.terms.literals import Literal, Need
from steward.errors import StewardError

__all__ = ["LONGEST_BYTES", "Program", "needed_by_program"]

LONGEST_BYTES = 32_768  # of an entry
_MOST_TOKENS = 200
_DEEPEST = 32  # nesting of values
_FUNCTIONS = ("ascii_downcase", "contains", "endswith", "has", "length", "not", "select",
              "startswith", "type")  # fmt: skip
_WORDS = frozenset({*_FUNCTIONS, "and", "or", "true", "false", "null"})
_STRING = r'"(?:[^"\\]|\\[^(])*"'
_STEP = rf"(?:\.[A-Za-z_]\w*|\.{_STRING}|\.?\[(?:-?\d+|{_STRING}|)\])\??"
_TOKEN = re.compile(
    rf"""(?P<space>\s+)
    |(?P<path>(?:{_STEP})+|\.(?![.\w\["]))
    |(?P<string>{_STRING})
    |(?P<number>-?\d+(?:\.\d+)?)
    |(?P<word>[A-Za-z_$@]\w*)
    |(?P<sign>==|!=|<=|>=|//|[<>|()])""",
    re.VERBOSE,
)
_CONTAINS = re.compile(r'contains(?!\s*\(\s*")')
_EQUALS = re.compile(r'\s*(?:\.\w+)+\s*==\s*"([^"\\]*)"\s*')
_PLAIN = re.compile(r"[ -!#-.0-\[\]-~]+")  # what JSON writes in one way, or as \u escapes
_SHORTEST = 3
_ESCAPED = frozenset({Literal(b"\\u")})
_HINT = "docs/rules/terms.md lists what a program can use; a regex term can do more"


class Program:
    """A jq program that takes time in proportion to the length of the entry."""

    def __init__(self, text: str) -> None:
        _check_simple(text)
        self._outputs = _compiled(text)
        # A boolean result need not transfer whole values.
        self._truths = jq.compile(f"({text}\n) | . != null and . != false")

    def passes(self, entry: bytes) -> bool:
        """Return whether an output is neither null nor false; an error counts as False."""
        try:
            return any(list(self._run(self._truths, entry)))
        except ValueError:
            return False

    def first(self, entry: bytes) -> str | None:
        """Return the first output that is not null, as text."""
        try:
            outputs = self._run(self._outputs, entry)
            found = next((each for each in outputs if each is not None), None)
        except ValueError:
            return None
        if found is None or isinstance(found, str):
            return found
        return json.dumps(found, separators=(",", ":"), ensure_ascii=False)

    def _run(self, program: jq._Program, entry: bytes) -> Iterator[object]:
        if len(entry) > LONGEST_BYTES:
            raise ValueError("too long")
        text = entry.decode("utf-8", "replace")
        _check_json(text)
        return iter(program.input_text(text))


def _check_simple(program: str) -> None:
    """Raise unless the program has only tokens with which it is linear."""
    at, tokens, iterations = 0, 0, 0
    while at < len(program):
        found = _TOKEN.match(program, at)
        if found is None or (found.lastgroup == "word" and found[0] not in _WORDS):
            near = found[0] if found is not None else program[at : at + 20].split(maxsplit=1)[0]
            raise StewardError(f"the jq program uses `{near}`, which is not supported", hint=_HINT)
        at = found.end()
        tokens += found.lastgroup != "space"
        iterations += found.lastgroup == "path" and "[]" in re.sub(_STRING, "", found[0])
    if tokens > _MOST_TOKENS:
        problem = f"the jq program has {tokens} tokens, more than {_MOST_TOKENS}"
        raise StewardError(problem, hint="say it shorter, or as several terms")
    if iterations > 1:
        problem = "the jq program goes through more than one list, which could be all pairs"
        raise StewardError(problem, hint="use one path with [], or make several terms of it")
    if _CONTAINS.search(re.sub(_STRING, '"', program)):
        problem = "`contains` is supported with a text only"
        raise StewardError(problem, hint='write contains("text")')


def needed_by_program(program: str) -> Need | None:
    r"""Return what an entry must contain for `.a.b == "text"`, alone or as the first of an `and`.

    Letters may be written as `\u` escapes, so an entry with one of these is tested as well.
    """
    found = _EQUALS.match(program)
    if found is None or not _ends_or_narrows(program[found.end() :]):
        return None
    longest = max(_PLAIN.findall(found[1]), key=len, default="")
    if len(longest) < _SHORTEST:
        return None
    return Need(alternatives=frozenset({frozenset({Literal(longest.encode())}), _ESCAPED}))


def _ends_or_narrows(rest: str) -> bool:
    """Return whether what follows can only make fewer entries pass."""
    if not rest:
        return True
    # Within one chain of `and` nothing binds looser; `or`, `|` and `//` would let others in.
    outside = _without_groups(rest)
    return rest.startswith("and") and not re.search(r"\bor\b|\||//", outside)


def _without_groups(text: str) -> str:
    """Return the text without brackets and quotes."""
    text = re.sub(_STRING, "", text)
    before = None
    while before != text:
        before, text = text, re.sub(r"\([^()]*\)|\[[^\[\]]*\]", "", text)
    return text


def _compiled(program: str) -> jq._Program:
    try:
        return jq.compile(program)
    except ValueError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        reason = lines[0].removeprefix("jq: error: ")
        problem = f"the jq program does not compile: {reason}"
        raise StewardError(problem, hint="try it with `jq` on a line of the log") from None


def _check_json(entry: str) -> None:
    """Raise ValueError unless the entry is one JSON value, not too deep; jq accepts several."""
    try:
        value = json.loads(entry, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if entry.count("[") + entry.count("{") > _DEEPEST:
        _check_depth(value)


def _check_depth(value: object) -> None:
    level = [value]
    for _ in range(_DEEPEST + 1):
        level = [part for each in level for part in _parts(each)]
    if level:
        raise ValueError("nested too deeply")


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _no_number(name: str) -> object:
    raise ValueError(name)
