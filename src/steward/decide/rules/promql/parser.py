"""Reads PromQL: the part that can be evaluated over frames, and a clear word about the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from steward.decide.rules.promql.expression import (
    Aggregate,
    Binary,
    Expression,
    FunctionCall,
    LabelMatcher,
    Number,
    Selector,
)
from steward.decide.rules.promql.functions import (
    AGGREGATIONS,
    ARGUMENTS,
    ELSEWHERE,
    PARAMETRIC,
)
from steward.decide.rules.promql.lexer import Word, duration_ns, fault, scan
from steward.errors import StewardError, did_you_mean

__all__ = ["ASK_PROMETHEUS", "parse"]

ASK_PROMETHEUS = "a Prometheus that is configured for rules can answer it (--prometheus URL)"
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("or",),
    ("and", "unless"),
    ("==", "!=", "<=", "<", ">=", ">"),
    ("+", "-"),
    ("*", "/", "%"),
)
_COMPARE = _LEVELS[2]
_SETS = ("and", "or", "unless")
_NUMBERS = {"inf": float("inf"), "nan": float("nan")}


def parse(expr: str) -> Expression:
    """Read an expression; raises a fault with its place for what is wrong or not supported."""
    reader = _Reader(expr)
    found = reader.level(0)
    reader.expect("end", "an operator or the end")
    return found


class _Reader:
    def __init__(self, expr: str) -> None:
        self._expr = expr
        self._words = scan(expr)
        self._next = 0

    # -- words -----------------------------------------------------------------------------------

    @property
    def _word(self) -> Word:
        return self._words[self._next]

    def _take(self) -> Word:
        word = self._word
        self._next += word.kind != "end"  # whoever looks further is still told that it ends
        return word

    def _is(self, *texts: str) -> bool:
        word = self._word
        return word.kind in ("sign", "name") and word.text.lower() in texts

    def _took(self, *texts: str) -> bool:
        if self._is(*texts):
            self._next += 1
            return True
        return False

    def expect(self, what: str, meaning: str = "") -> Word:
        """Take a sign or a word of one kind, or say what is there instead."""
        word = self._word
        if word.kind == what or (word.kind == "sign" and word.text == what):
            return word if word.kind == "end" else self._take()
        there = "the expression ends" if word.kind == "end" else f"'{word.text}' stands"
        raise self._fault(f"{there} where {meaning or repr(what)} should be", word.at)

    def _fault(self, problem: str, at: int, *, hint: str = "") -> StewardError:
        return fault(problem, self._expr, at, hint=hint)

    def _elsewhere(self, what: str, at: int) -> StewardError:
        return self._fault(f"{what} cannot be evaluated here", at, hint=ASK_PROMETHEUS)

    # -- operators -------------------------------------------------------------------------------

    def level(self, number: int) -> Expression:
        """Read operators of one strength and all that bind more strongly."""
        if number == len(_LEVELS):
            found = self._signed()
        else:
            found = self.level(number + 1)
            while self._is(*_LEVELS[number]):
                found = self._binary(found, lambda: self.level(number + 1))
        return found

    def _binary(self, left: Expression, right: Callable[[], Expression]) -> Binary:
        word = self._take()
        if self._is("atan2"):
            raise self._elsewhere("'atan2'", self._word.at)
        made = Binary(op=word.text.lower(), left=left, right=left, at=word.at)
        if self._took("bool"):
            if made.op not in _COMPARE:
                raise self._fault(f"'bool' goes with comparisons, not with '{made.op}'", word.at)
            made = replace(made, as_bool=True)
        return replace(self._matching(made), right=right())

    def _matching(self, made: Binary) -> Binary:
        at = self._word.at
        if self._took("on"):
            made = replace(made, on=self._labels())
        elif self._took("ignoring"):
            made = replace(made, ignoring=self._labels())
        for word, side in (("group_left", "left"), ("group_right", "right")):
            if self._took(word):
                if made.op in _SETS or (made.on is None and made.ignoring is None):
                    problem = f"'{word}' needs 'on' or 'ignoring' and no set operator"
                    raise self._fault(problem, at)
                many: Literal["left", "right"] = "left" if side == "left" else "right"
                taken = self._labels() if self._is("(") else ()
                made = replace(made, many=many, taken=taken)
        return made

    def _labels(self) -> tuple[str, ...]:
        self.expect("(", "'(' and names of labels")
        found: list[str] = []
        while not self._took(")"):
            found.append(self.expect("name", "the name of a label").text)
            if not self._is(")"):
                self.expect(",", "',' or ')'")
        return tuple(found)

    def _signed(self) -> Expression:
        word = self._word
        if self._took("-"):
            inner = self._signed()
            if isinstance(inner, Number):
                return Number(value=-inner.value, at=word.at)
            return Binary(op="*", left=Number(value=-1.0, at=word.at), right=inner, at=word.at)
        if self._took("+"):
            return self._signed()
        base = self._suffixed(self._primary())
        if self._is("^"):  # binds to the right, and more strongly than a sign before it
            return self._binary(base, self._signed)
        return base

    # -- what stands between operators -----------------------------------------------------------

    def _primary(self) -> Expression:
        word = self._take()
        if word.kind == "number":
            text = word.text.lower()
            return Number(value=float(int(text, 16) if "x" in text else float(text)), at=word.at)
        if word.text == "(" and word.kind == "sign":
            found = self.level(0)
            self.expect(")")
            return found
        if word.text == "{" and word.kind == "sign":
            raise self._fault(
                "series are named here: a selector needs a metric before '{'",
                word.at,
                hint='write it as steward_gpu_busy_share{node="n01"}',
            )
        if word.kind != "name":
            raise self._unexpected(word)
        if word.text.lower() in _NUMBERS and not self._is("{", "["):
            return Number(value=_NUMBERS[word.text.lower()], at=word.at)
        if word.text.lower() in (*AGGREGATIONS, "count_values", "limitk") and self._is(
            "(", "by", "without"
        ):
            return self._aggregate(word)
        return self._call(word) if self._is("(") else self._selector(word)

    def _unexpected(self, word: Word) -> StewardError:
        if word.kind == "string":
            return self._elsewhere("a text as a value", word.at)
        there = "the expression ends" if word.kind == "end" else f"'{word.text}' stands"
        return self._fault(f"{there} where a metric, a number or '(' should be", word.at)

    def _selector(self, word: Word) -> Selector:
        matchers: list[LabelMatcher] = []
        if self._took("{"):
            while not self._took("}"):
                matchers.append(self._matcher())
                if not self._is("}"):
                    self.expect(",", "',' or '}'")
        return Selector(name=word.text, matchers=tuple(matchers), at=word.at)

    def _matcher(self) -> LabelMatcher:
        label = self.expect("name", "the name of a label")
        sign = self._take()
        text = self.expect("string", "a text in quotes").text
        match sign.text:
            case "=" | "!=" | "=~" | "!~":
                return LabelMatcher(label=label.text, op=sign.text, text=text, at=label.at)
        raise self._fault(f"'{sign.text}' is none of =, !=, =~, !~", sign.at)

    def _suffixed(self, found: Expression) -> Expression:
        """Read a range, an offset, or what cannot be had, after a selector."""
        while self._is("[", "offset", "@"):
            word = self._take()
            if word.text == "@":
                raise self._elsewhere("'@'", word.at)
            if not isinstance(found, Selector):
                what = "a subquery" if word.text == "[" else "an offset of anything but a metric"
                raise self._elsewhere(what, word.at)
            if word.text == "[":
                found = replace(found, range_ns=self._duration())
                if self._word.text.startswith(":"):
                    raise self._elsewhere("a subquery", self._word.at)
                self.expect("]")
            else:
                if self._is("-"):
                    raise self._elsewhere("a look ahead (negative offset)", self._word.at)
                found = replace(found, offset_ns=self._duration())
        return found

    def _duration(self) -> int:
        word = self.expect("duration", "a duration such as 5m")
        found = duration_ns(word.text)
        if not 0 < found < 2**62:
            raise self._fault("a duration has to be between 1ms and 100 years", word.at)
        return found

    def _call(self, word: Word) -> FunctionCall:
        if word.text not in ARGUMENTS:
            if word.text in ELSEWHERE:
                raise self._elsewhere(f"the function '{word.text}'", word.at)
            known = sorted({*ARGUMENTS, *AGGREGATIONS})
            hint = did_you_mean(word.text, known) or f"there are: {', '.join(known)}"
            raise self._fault(f"there is no function '{word.text}'", word.at, hint=hint)
        return FunctionCall(name=word.text, args=self._arguments(), at=word.at)

    def _arguments(self) -> tuple[Expression, ...]:
        self.expect("(")
        found: list[Expression] = []
        while not self._took(")"):
            found.append(self.level(0))
            if not self._is(")"):
                self.expect(",", "',' or ')'")
        return tuple(found)

    def _aggregate(self, word: Word) -> Aggregate:
        op = word.text.lower()
        if op not in AGGREGATIONS:
            raise self._elsewhere(f"'{op}'", word.at)
        without, labels = self._grouping()
        args = self._arguments()
        if not labels and not without:
            without, labels = self._grouping()
        if len(args) != 1 + (op in PARAMETRIC):
            takes = "a number and a vector" if op in PARAMETRIC else "one vector"
            raise self._fault(f"'{op}' takes {takes}, and has {len(args)} arguments", word.at)
        parameter = args[0] if op in PARAMETRIC else None
        if parameter is not None and not isinstance(parameter, Number):
            raise self._fault(f"the first argument of '{op}' is a number", word.at)
        value = None if parameter is None else parameter.value
        made = Aggregate(op=op, of=args[-1], parameter=value, labels=labels, at=word.at)
        return replace(made, without=without)

    def _grouping(self) -> tuple[bool, tuple[str, ...]]:
        if self._took("by"):
            return False, self._labels()
        if self._took("without"):
            return True, self._labels()
        return False, ()
