"""What calls cost for which it matters how an argument is written: numbers and patterns."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from steward.decide.rules.terms.programs.cost import Cost, plus, scaled
from steward.decide.rules.terms.programs.functions import OF_ARGUMENT, PLAIN
from steward.decide.rules.terms.programs.patterns import searching
from steward.decide.rules.terms.programs.refusing import refuse, refuse_name

__all__ = ["Argument", "call"]

_MOST_TURNS = 1000  # of one `range`
_WHOLE_NUMBER = re.compile(r"\d{1,9}")
_FLAGS = re.compile(r'"[ins]*"')


class Argument(NamedTuple):
    """An argument: what it costs, and how it is written."""

    cost: Cost
    text: str


def call(name: str, arguments: Sequence[Argument]) -> Cost:
    """Return the cost of a function with these arguments."""
    if not arguments and name in PLAIN:
        return PLAIN[name]
    if name in _BY_TEXT:
        return _BY_TEXT[name](arguments)
    if len(arguments) == 1 and name in OF_ARGUMENT:
        return OF_ARGUMENT[name](arguments[0].cost)
    if len(arguments) == 2 and name in ("any", "all"):
        made = arguments[0].cost.then(arguments[1].cost)
        return Cost(size=(5, 0, 0, 0), work=plus(made.work, scaled(made.many, 10)), scalar=True)
    return refuse_name(name)


def _range(arguments: Sequence[Argument]) -> Cost:
    texts = [each.text for each in arguments]
    if len(texts) > 2 or not all(_WHOLE_NUMBER.fullmatch(each) for each in texts):
        hint = f"`range` is taken with numbers written out, up to {_MOST_TURNS}"
        refuse("`range`, which may never end", hint=hint)
    turns = float(texts[-1])
    many = (turns, 0.0, 0.0, 0.0)
    return Cost(many=many, size=scaled(many, 10), work=scaled(many, 10), scalar=True)


def _limit(arguments: Sequence[Argument]) -> Cost:
    """Return the cost of all outputs: it is not known which of them are dear."""
    made = arguments[-1].cost
    if len(arguments) != 2 or not _WHOLE_NUMBER.fullmatch(arguments[0].text):
        refuse("`limit` without a number written out", hint="write `limit(3; …)`")
    return made.working(made.many)


def _test(arguments: Sequence[Argument]) -> Cost:
    return Cost(size=(5, 0, 0, 0), work=_search(arguments)[1].work, scalar=True)


def _capture(arguments: Sequence[Argument]) -> Cost:
    pattern, found = _search(arguments)
    groups = 1 + pattern.count("(")
    size = (150.0 * groups + len(pattern), 6.0 * groups, 0.0, 0.0)
    return Cost(size=size, work=plus(found.work, scaled(size, 3)))


def _search(arguments: Sequence[Argument]) -> tuple[str, Cost]:
    """Return a pattern and what it costs to look for it."""
    pattern = _written_out(arguments[0].text) if arguments else None
    flags = [each.text for each in arguments[1:]]
    if pattern is None or len(flags) > 1 or not all(_FLAGS.fullmatch(each) for each in flags):
        hint = 'write it as `test("pattern")` or `test("pattern"; "i")`'
        refuse("a pattern that is not written out, or its flags", hint=hint)
    work = searching(pattern)
    if work is None:
        hint = "leave out runs within groups that repeat, or use a term of the kind `regex`"
        refuse(f"the pattern {json.dumps(pattern)}, which may take very long", hint=hint)
    return pattern, Cost(size=work, work=work)


def _written_out(text: str) -> str | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, str) else None


_BY_TEXT: Mapping[str, Callable[[Sequence[Argument]], Cost]] = {
    "range": _range,
    "limit": _limit,
    "test": _test,
    "capture": _capture,
}
