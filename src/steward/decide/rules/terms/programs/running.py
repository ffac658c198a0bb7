"""jq terms on entries: programs that were weighed, over lines that are not too long for them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

import jq

from steward.decide.rules.terms.literals import Literal, Need
from steward.decide.rules.terms.programs.cost import Cost, at, plus, scaled
from steward.decide.rules.terms.programs.weighing import DEEPEST, refuse_modules, weigh
from steward.errors import StewardError

__all__ = ["Program", "needed_by_program"]

_LONGEST_PROGRAM = 10_000  # characters
_LONGEST_ENTRY_BYTES = 32_768
_SHORTEST_ENTRY_BYTES = 1024  # a program that is too slow for these is of no use
_MOST_WORK = 500_000  # steps: 50 ms, and 70 MB
_READING = 3  # steps per byte of an entry
_HANDING_OVER = 5  # steps per byte of an output
_EQUALS = re.compile(r'\s*(?:\.\w+)+\s*==\s*"([^"\\]*)"\s*')
_PLAIN = re.compile(r"[ -!#-.0-\[\]-~]+")  # what JSON writes in one literal_set, or as \u escapes
_SHORTEST = 3
_ESCAPED = frozenset({Literal(b"\\u")})


class Program:
    """A jq program that takes at most some 50 ms and 100 MB, on whatever line."""

    def __init__(self, text: str, *, only_asks: bool = False) -> None:
        if len(text) > _LONGEST_PROGRAM:
            problem = f"the jq program has {len(text)} characters, more than {_LONGEST_PROGRAM}"
            raise StewardError(problem, hint="say it shorter, or as several terms")
        refuse_modules(text)
        self._outputs = _compiled(text)
        self.longest_bytes = _longest_bytes(weigh(text), 0 if only_asks else _HANDING_OVER)
        # Whole values need not come over for a yes or no.
        self._truths = jq.compile(f"({text}\n) | . != null and . != false")

    def passes(self, entry: bytes) -> bool:
        """Tell whether an output is neither null nor false; an error in between is a no."""
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
        if len(entry) > self.longest_bytes:
            raise ValueError("too long")
        text = entry.decode("utf-8", "replace")
        _check_json(text)
        return iter(program.input_text(text))


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
    return Need(alternatives=frozenset({frozenset({Literal(longest.encode())}), _ESCAPED}))


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


def _compiled(program: str) -> jq._Program:
    try:
        return jq.compile(program)
    except ValueError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        reason = lines[0].removeprefix("jq: error: ")
        problem = f"the jq program does not compile: {reason}"
        raise StewardError(problem, hint="try it with `jq` on a line of the log") from None


def _longest_bytes(cost: Cost, handing_over: float) -> int:
    """Return how long an entry may be for a program of this cost."""
    total = plus(cost.work, scaled(cost.size, handing_over), (0, _READING, 0, 0))
    length = _LONGEST_ENTRY_BYTES
    while length >= _SHORTEST_ENTRY_BYTES and at(total, length) > _MOST_WORK:
        length = length * 7 // 8
    if length < _SHORTEST_ENTRY_BYTES:
        problem = "the jq program may take more than 50 ms, or 100 MB, even on a line of 1 KiB"
        hint = "go through fewer lists at once, with `any(…; …)`, or make several terms of it"
        raise StewardError(problem, hint=hint)
    return length


def _check_json(entry: str) -> None:
    """Raise ValueError unless the entry is one JSON value, not too deep; jq takes several."""
    try:
        value = json.loads(entry, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if entry.count("[") + entry.count("{") > DEEPEST:
        _check_depth(value)


def _check_depth(value: object) -> None:
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [part for each in level for part in _parts(each)]
    if level:
        raise ValueError("nested too deeply")


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _no_number(name: str) -> object:
    raise ValueError(name)
