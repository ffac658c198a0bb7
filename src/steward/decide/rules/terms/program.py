"""jq terms: programs over an entry that is one JSON value, which always come to an end.

jq runs in C and cannot be stopped from outside, so what can run for ever, or look outside the
entry, is refused when a rule is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import jq

from steward.decide.rules.terms.literals import Literal, Need
from steward.errors import StewardError

__all__ = ["first_of", "needed_by_program", "passes"]

_LONGEST = 10_000  # characters of a program
_MOST_TURNS = 1000  # of one `range`
_ENDLESS = "def recurse until while repeat combinations range"
_GROWING = "reduce foreach setpath"  # a text doubled 40 times is more than any machine has
_OUTSIDE = (
    "import include modulemeta get_search_list get_jq_origin get_prog_origin env input inputs "
    "input_filename input_line_number debug stderr now localtime strflocaltime halt_error"
)
_REASONS = (
    dict.fromkeys(_ENDLESS.split(), "may never end")
    | dict.fromkeys(_GROWING.split(), "may grow without end")
    | dict.fromkeys(_OUTSIDE.split(), "looks outside the entry")
)
_LEXEME = re.compile(r'#[^\n]*|"(?:[^"\\]|\\.)*"|[.$@]?[A-Za-z_]\w*(?:::\w+)*', re.DOTALL)
_NAME = re.compile(r"[.$@]?[A-Za-z_]\w*")
_SMALL_RANGE = re.compile(r"\brange\(\s*(?:\d{1,3}\s*;\s*)?(?:\d{1,3}|1000)\s*\)")
_EQUALS = re.compile(r'\s*(?:\.\w+)+\s*==\s*"([^"\\]*)"\s*')
_PLAIN = re.compile(r"[ -!#-.0-\[\]-~]+")  # what JSON writes in one way, or as \u escapes
_SHORTEST = 3
_ESCAPED = frozenset({Literal(b"\\u")})


def passes(program: str) -> Callable[[bytes], bool]:
    """Return a test: an output that is neither null nor false; an error in between is a no."""
    run = _runner(program)

    def test(text: bytes) -> bool:
        try:
            outputs = list(run(text))
        except ValueError:
            return False
        return any(each is not None and each is not False for each in outputs)

    return test


def first_of(program: str) -> Callable[[bytes], str | None]:
    """Return what gives the first output that is not null, as text."""
    run = _runner(program)

    def extract(text: bytes) -> str | None:
        try:
            found = next((each for each in run(text) if each is not None), None)
        except ValueError:
            return None
        if found is None or isinstance(found, str):
            return found
        return json.dumps(found, separators=(",", ":"), ensure_ascii=False)

    return extract


def needed_by_program(program: str) -> Need | None:
    r"""Return what an entry must contain for `.a.b == "text"`, alone or as the first of an `and`.

    Letters may be written as `\u` escapes, so an entry with one of these is looked at as well.
    """
    found = _EQUALS.match(program)
    if "#" in program or "\\(" in program:  # comments and code in strings could hide the rest
        return None
    if found is None or not _ends_or_narrows(program[found.end() :]):
        return None
    longest = max(_PLAIN.findall(found[1]), key=len, default="")
    if len(longest) < _SHORTEST:
        return None
    return Need(ways=frozenset({frozenset({Literal(longest.encode())}), _ESCAPED}))


def _ends_or_narrows(rest: str) -> bool:
    """Whether what follows can only make fewer entries pass."""
    if not rest:
        return True
    # Within one chain of `and` nothing binds looser; `or`, `,`, `|` and `//` would let others in.
    outside = _without_groups(rest)
    return rest.startswith("and") and not re.search(r"\bor\b|[,|]|//|\bas\b|\breduce\b", outside)


def _without_groups(text: str) -> str:
    """Leave out what stands in brackets or quotes."""
    text = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    before = None
    while before != text:
        before, text = text, re.sub(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}", "", text)
    return text


def _runner(program: str) -> Callable[[bytes], Iterator[object]]:
    _refuse_what_may_not_end(program)
    try:
        compiled = jq.compile(program)
    except ValueError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        reason = lines[0].removeprefix("jq: error: ")
        problem = f"the jq program does not compile: {reason}"
        raise StewardError(problem, hint="try it with `jq` on a line of the log") from None

    def run(text: bytes) -> Iterator[object]:
        entry = text.decode("utf-8", "replace")
        _check_json(entry)
        return iter(compiled.input_text(entry))

    return run


def _check_json(entry: str) -> None:
    """Raise ValueError unless the entry is exactly one JSON value: jq would take several."""
    try:
        json.loads(entry, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _no_number(name: str) -> object:
    raise ValueError(name)


def _refuse_what_may_not_end(program: str) -> None:
    if len(program) > _LONGEST:
        problem = f"the jq program has {len(program)} characters, more than {_LONGEST}"
        raise StewardError(problem, hint="say it shorter, or as several terms")
    checked = _SMALL_RANGE.sub("", program, count=1)  # four in one another are 10^12 turns
    # Strings with code inside are read as code as a whole: rather one `while` too many refused.
    lexeme = _NAME if "\\(" in program else _LEXEME
    for name in lexeme.findall(checked):
        reason = "looks outside the entry" if name == "$ENV" else _REASONS.get(name)
        if reason:
            problem = f"the jq program uses `{name}`, which {reason}"
            raise StewardError(problem, hint=_hint(name))


def _hint(name: str) -> str:
    if name == "range":
        return f"`range` is taken once, with numbers written out, up to {_MOST_TURNS}"
    if name == "recurse":
        return "`..` goes through all values of the entry, and ends"
    return f'write "{name}" in quotes where it is a key; otherwise say it without'
