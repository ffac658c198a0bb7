"""Reading a jq program to know what it costs.

jq has compiled the program before, so only what it means has to be known, not whether it is right.
Whatever is not known for certain is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from steward.decide.rules.terms.programs.calls import Argument, call
from steward.decide.rules.terms.programs.cost import STEP, Cost, plus, scaled, times
from steward.decide.rules.terms.programs.functions import ELEMENTS, NUMBER, PLAIN, array, literal
from steward.decide.rules.terms.programs.operators import (
    LEVELS,
    OPERATORS,
    either_of,
    product,
    put_together,
)
from steward.decide.rules.terms.programs.refusing import refuse, refuse_name

__all__ = ["DEEPEST", "refuse_modules", "weigh"]

DEEPEST = 32  # values inside one another
_MOST_NESTED = 40  # parts of a program inside one another
_NAME = "[A-Za-z_][A-Za-z0-9_]*"
_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_TOKEN = re.compile(
    rf"\.\.|\.{_NAME}|{_NUMBER}|[@$]?(?:{_NAME}::)*{_NAME}"
    r"|\?//|(?://|[|+\-*/%])=|[=!<>]=|//|.",
    re.DOTALL,
)
_EMPTY = re.compile(r"(?:[ \t\n\r]|#[^\n\r\\]*(?![^\n]))*")
_WRITTEN_OUT = re.compile(r'[\s\d:-]*|"[^"\\]*"\s*')
_WITHOUT_COMMA = 2  # of the levels: where a comma ends a value
_EMPTY_VALUE = Cost(size=(3, 0, 0, 0), work=(10, 0, 0, 0))
_FIELD = Cost(size=(0, 1, 0, 0), work=STEP)
_EVERYTHING = Cost(many=(1, 0.5, 0, 0), size=(0, DEEPEST, 0, 0), work=(5, 10, 0, 0))
_FORMATTED = Cost(size=(2, 9, 0, 0), work=(10, 15, 0, 0), scalar=True)


def weigh(program: str) -> Cost:
    """Return what a program costs for one entry, or raise where nothing useful can be said."""
    reader = _Reader(program)
    cost = reader.pipe()
    if reader.coming:
        refuse_name(reader.coming)
    if reader.deep and reader.parses:
        hint = "name the fields that you look for"
        refuse("`..` and `fromjson`: nobody knows how deep that goes", hint=hint)
    return cost


def refuse_modules(program: str) -> None:
    """Refuse what jq would look for on the disk already while it compiles."""
    first = _Reader(program).coming
    if first in ("import", "include", "module"):
        refuse_name(first)


@dataclass(slots=True)
class _Reader:
    program: str
    at: int = 0
    depth: int = 0
    deep: bool = False  # whether it goes through everything
    parses: bool = False  # whether it reads texts as JSON

    def __post_init__(self) -> None:
        self.skip()

    # -- tokens -----------------------------------------------------------------------------------

    @property
    def coming(self) -> str:
        """What comes next; nothing at the end."""
        found = _TOKEN.match(self.program, self.at)
        return found[0] if found else ""

    def add(self) -> str:
        """Go past the next token and what is empty after it."""
        taken = self.coming
        self.at += len(taken)
        self.skip()
        return taken

    def took(self, *wanted: str) -> bool:
        """Go past a token if it is one of these."""
        found = self.coming in wanted
        if found:
            self.add()
        return found

    def expect(self, wanted: str) -> None:
        """Go past a token that has to be there."""
        if not self.took(wanted):
            self.give_up()

    def give_up(self) -> NoReturn:
        """Refuse what comes next."""
        refuse_name(self.coming or "its end")

    def skip(self) -> None:
        """Go past spaces and comments."""
        found = _EMPTY.match(self.program, self.at)
        self.at = found.end() if found else self.at

    # -- operators --------------------------------------------------------------------------------

    def pipe(self, level: int = 0) -> Cost:
        """Read a filter, up to what binds less than this level."""
        if level == len(LEVELS):
            return self._term()
        begin, cost = self.at, self.pipe(level + 1)
        while self.coming in LEVELS[level]:
            before, sign = self.program[begin : self.at].strip(), self.add()
            other = self._written(level + 1)
            if sign == "*":
                cost = product(cost, other.cost, (before, other.text))
            else:
                cost = OPERATORS[sign](cost, other.cost)
        return cost

    def _written(self, level: int = 0) -> Argument:
        begin, cost = self.at, self.pipe(level)
        return Argument(cost, self.program[begin : self.at].strip())

    # -- terms ------------------------------------------------------------------------------------

    def _term(self) -> Cost:
        self.depth += 1
        if self.depth > _MOST_NESTED:
            refuse(f"more than {_MOST_NESTED} parts inside one another", hint="say it shorter")
        cost = self._beginning()
        while True:
            sign = self.coming
            if re.fullmatch(rf"\.{_NAME}", sign):
                self.add()
                cost = cost.then(_FIELD)
            elif sign == "[":
                cost = self._indexed(cost)
            elif sign == ".":
                self.add()
                cost = cost if self.coming == "[" else _picked(cost, self._text())
            elif not self.took("?"):
                self.depth -= 1
                return cost

    def _beginning(self) -> Cost:
        word = self.coming
        if word[:1] == '"':
            return self._text()
        self.add()
        if re.fullmatch(_NUMBER, word):
            return literal(NUMBER)
        if word[:1] == ".":
            return self._path(word)
        if word[:1] == "@":
            return self._text().then(_FORMATTED) if self.coming == '"' else _FORMATTED
        if word in _FORMS:
            return _FORMS[word](self)
        return self._call(word) if re.fullmatch(_NAME, word) else refuse_name(word)

    def _path(self, word: str) -> Cost:
        if word == "..":
            self.deep = True
            return _EVERYTHING
        return self._text().then(_FIELD) if word == "." and self.coming == '"' else _FIELD

    def _indexed(self, cost: Cost) -> Cost:
        """Read what stands in square brackets after a value."""
        self.add()
        if self.took("]"):
            return cost.then(ELEMENTS)
        begin, index = self.at, literal(1)
        while self.coming != "]":
            if not self.took(":"):
                index = put_together(index, self.pipe())
        written = self.program[begin : self.at]
        self.expect("]")
        picked = _picked(cost, index)
        if _WRITTEN_OUT.fullmatch(written):
            return picked
        # An array within an array is looked for at every place.
        return picked.working(scaled(times(cost.size, index.size), 0.5))

    def _text(self) -> Cost:
        """Read a text, with filters inside."""
        begin, cost = self.at, literal(2)
        self.at += 1
        while (sign := self.program[self.at : self.at + 1]) not in ('"', ""):
            if not self.program.startswith("\\(", self.at):
                self.at += 2 if sign == "\\" else 1
                continue
            self.at += 2
            self.skip()
            cost = put_together(cost, self.pipe().then(PLAIN["tostring"]))
            if self.coming != ")":
                self.give_up()
            self.at += 1
        length = 6.0 * (self.at - begin)
        self.expect('"')
        size = plus(cost.size, scaled(cost.many, length))
        return Cost(
            many=cost.many, size=size, work=plus(cost.work, scaled(size, 0.05)), scalar=True
        )

    # -- forms ------------------------------------------------------------------------------------

    def group(self) -> Cost:
        """Read what stands in round brackets."""
        cost = self.pipe()
        self.expect(")")
        return cost

    def collected(self) -> Cost:
        """Read an array."""
        if self.took("]"):
            return _EMPTY_VALUE
        cost = array(self.pipe())
        self.expect("]")
        return cost

    def mapping(self) -> Cost:
        """Read an object: one for each way of taking one value of each entry."""
        cost = _EMPTY_VALUE
        while not self.took("}"):
            key = self._key()
            value = self._value() if self.took(":") else _FIELD
            made = cost.across(key).across(value)
            cost = made.working(scaled(made.many, 10), made.size)
            if self.coming != "}":
                self.expect(",")
        return cost

    def _key(self) -> Cost:
        if self.took("("):
            return self.group()
        if self.coming[:1] in ('"', "@"):
            return self._beginning()
        if not re.fullmatch(_NAME, self.coming):
            self.give_up()
        return literal(len(self.add()) + 4)

    def _value(self) -> Cost:
        cost = self.pipe(_WITHOUT_COMMA)
        while self.took("|"):
            cost = cost.then(self.pipe(_WITHOUT_COMMA))
        return cost

    def choice(self) -> Cost:
        """Read what comes after `if`."""
        test = self.pipe()
        self.expect("then")
        one = self.pipe()
        if self.took("elif"):
            return either_of(test, one, self.choice())
        other = self.pipe() if self.took("else") else _FIELD
        self.expect("end")
        return either_of(test, one, other)

    def attempt(self) -> Cost:
        """Read what comes after `try`; an error is no longer than what was done before it."""
        tried = self._term()
        if not self.took("catch"):
            return tried
        error = Cost(size=plus((500, 0, 0, 0), tried.work), work=STEP)
        return tried.beside(error.then(self._term()))

    def negative(self) -> Cost:
        """Read what comes after a minus."""
        return put_together(literal(1), self._term())

    def _call(self, name: str) -> Cost:
        self.parses = self.parses or name == "fromjson"
        arguments: list[Argument] = []
        if self.took("("):
            arguments.append(self._written())
            while self.took(";"):
                arguments.append(self._written())
            self.expect(")")
        return call(name, arguments)


def _picked(cost: Cost, index: Cost) -> Cost:
    """Return the cost of one part of each value for each index."""
    cross = cost.across(index)
    return Cost(many=cross.many, size=times(cost.size, index.many), work=cross.work)


_FORMS: Mapping[str, Callable[[_Reader], Cost]] = {
    "(": _Reader.group,
    "[": _Reader.collected,
    "{": _Reader.mapping,
    "if": _Reader.choice,
    "try": _Reader.attempt,
    "-": _Reader.negative,
}
