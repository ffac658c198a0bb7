"""Parser of PromQL: the supported subset, and clear errors for the rest."""

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
from steward.decide.rules.promql.lexer import PromqlToken, duration_ns, fault, tokenize
from steward.errors import StewardError, did_you_mean

__all__ = ["PROMETHEUS_HINT", "parse"]

PROMETHEUS_HINT = "a Prometheus that is configured for rules can answer it (--prometheus URL)"
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
    """Parse an expression; raise with the place of what is wrong or not supported."""
    reader = _Parser(expr)
    found = reader.level(0)
    reader.expect("end", "an operator or the end")
    return found


class _Parser:
    def __init__(self, expr: str) -> None:
        self._expr = expr
        self._tokens = tokenize(expr)
        self._next = 0

    # -- tokens ----------------------------------------------------------------------------------

    @property
    def _token(self) -> PromqlToken:
        return self._tokens[self._next]

    def _advance(self) -> PromqlToken:
        token = self._token
        self._next += token.kind != "end"  # the end token repeats
        return token

    def _is(self, *texts: str) -> bool:
        token = self._token
        return token.kind in ("sign", "name") and token.text.lower() in texts

    def _accept(self, *texts: str) -> bool:
        if self._is(*texts):
            self._next += 1
            return True
        return False

    def expect(self, what: str, meaning: str = "") -> PromqlToken:
        """Consume a token of one kind, or raise with the token found instead."""
        token = self._token
        if token.kind == what or (token.kind == "sign" and token.text == what):
            return token if token.kind == "end" else self._advance()
        found = "the expression ends" if token.kind == "end" else f"'{token.text}' stands"
        raise self._fault(f"{found} where {meaning or repr(what)} should be", token.at)

    def _fault(self, problem: str, at: int, *, hint: str = "") -> StewardError:
        return fault(problem, self._expr, at, hint=hint)

    def _unsupported(self, what: str, at: int) -> StewardError:
        return self._fault(f"{what} cannot be evaluated here", at, hint=PROMETHEUS_HINT)

    # -- operators -------------------------------------------------------------------------------

    def level(self, number: int) -> Expression:
        """Parse operators of one precedence level and all that bind more strongly."""
        if number == len(_LEVELS):
            found = self._signed()
        else:
            found = self.level(number + 1)
            while self._is(*_LEVELS[number]):
                found = self._binary(found, lambda: self.level(number + 1))
        return found

    def _binary(self, left: Expression, right: Callable[[], Expression]) -> Binary:
        token = self._advance()
        if self._is("atan2"):
            raise self._unsupported("'atan2'", self._token.at)
        made = Binary(op=token.text.lower(), left=left, right=left, at=token.at)
        if self._accept("bool"):
            if made.op not in _COMPARE:
                raise self._fault(f"'bool' goes with comparisons, not with '{made.op}'", token.at)
            made = replace(made, as_bool=True)
        return replace(self._matching(made), right=right())

    def _matching(self, made: Binary) -> Binary:
        at = self._token.at
        if self._accept("on"):
            made = replace(made, on=self._labels())
        elif self._accept("ignoring"):
            made = replace(made, ignoring=self._labels())
        for token, side in (("group_left", "left"), ("group_right", "right")):
            if self._accept(token):
                if made.op in _SETS or (made.on is None and made.ignoring is None):
                    problem = f"'{token}' needs 'on' or 'ignoring' and no set operator"
                    raise self._fault(problem, at)
                many: Literal["left", "right"] = "left" if side == "left" else "right"
                taken = self._labels() if self._is("(") else ()
                made = replace(made, many=many, taken=taken)
        return made

    def _labels(self) -> tuple[str, ...]:
        self.expect("(", "'(' and names of labels")
        found: list[str] = []
        while not self._accept(")"):
            found.append(self.expect("name", "the name of a label").text)
            if not self._is(")"):
                self.expect(",", "',' or ')'")
        return tuple(found)

    def _signed(self) -> Expression:
        token = self._token
        if self._accept("-"):
            inner = self._signed()
            if isinstance(inner, Number):
                return Number(value=-inner.value, at=token.at)
            return Binary(op="*", left=Number(value=-1.0, at=token.at), right=inner, at=token.at)
        if self._accept("+"):
            return self._signed()
        base = self._suffixed(self._primary())
        if self._is("^"):  # binds to the right, and more strongly than a sign before it
            return self._binary(base, self._signed)
        return base

    # -- operands --------------------------------------------------------------------------------

    def _primary(self) -> Expression:
        token = self._advance()
        if token.kind == "number":
            text = token.text.lower()
            return Number(value=float(int(text, 16) if "x" in text else float(text)), at=token.at)
        if token.text == "(" and token.kind == "sign":
            found = self.level(0)
            self.expect(")")
            return found
        if token.text == "{" and token.kind == "sign":
            raise self._fault(
                "series are named here: a selector needs a metric before '{'",
                token.at,
                hint='write it as steward_gpu_busy_share{node="n01"}',
            )
        if token.kind != "name":
            raise self._unexpected(token)
        if token.text.lower() in _NUMBERS and not self._is("{", "["):
            return Number(value=_NUMBERS[token.text.lower()], at=token.at)
        if token.text.lower() in (*AGGREGATIONS, "count_values", "limitk") and self._is(
            "(", "by", "without"
        ):
            return self._aggregate(token)
        return self._call(token) if self._is("(") else self._selector(token)

    def _unexpected(self, token: PromqlToken) -> StewardError:
        if token.kind == "string":
            return self._unsupported("a text as a value", token.at)
        found = "the expression ends" if token.kind == "end" else f"'{token.text}' stands"
        return self._fault(f"{found} where a metric, a number or '(' should be", token.at)

    def _selector(self, token: PromqlToken) -> Selector:
        matchers: list[LabelMatcher] = []
        if self._accept("{"):
            while not self._accept("}"):
                matchers.append(self._matcher())
                if not self._is("}"):
                    self.expect(",", "',' or '}'")
        return Selector(name=token.text, matchers=tuple(matchers), at=token.at)

    def _matcher(self) -> LabelMatcher:
        label = self.expect("name", "the name of a label")
        sign = self._advance()
        text = self.expect("string", "a text in quotes").text
        match sign.text:
            case "=" | "!=" | "=~" | "!~":
                return LabelMatcher(label=label.text, op=sign.text, text=text, at=label.at)
        raise self._fault(f"'{sign.text}' is none of =, !=, =~, !~", sign.at)

    def _suffixed(self, found: Expression) -> Expression:
        """Parse a range, an offset, or an unsupported modifier, after a selector."""
        while self._is("[", "offset", "@"):
            token = self._advance()
            if token.text == "@":
                raise self._unsupported("'@'", token.at)
            if not isinstance(found, Selector):
                what = "a subquery" if token.text == "[" else "an offset of anything but a metric"
                raise self._unsupported(what, token.at)
            if token.text == "[":
                found = replace(found, range_ns=self._duration())
                if self._token.text.startswith(":"):
                    raise self._unsupported("a subquery", self._token.at)
                self.expect("]")
            else:
                if self._is("-"):
                    raise self._unsupported("a look ahead (negative offset)", self._token.at)
                found = replace(found, offset_ns=self._duration())
        return found

    def _duration(self) -> int:
        token = self.expect("duration", "a duration such as 5m")
        found = duration_ns(token.text)
        if not 0 < found < 2**62:
            raise self._fault("a duration has to be between 1ms and 100 years", token.at)
        return found

    def _call(self, token: PromqlToken) -> FunctionCall:
        if token.text not in ARGUMENTS:
            if token.text in ELSEWHERE:
                raise self._unsupported(f"the function '{token.text}'", token.at)
            known = sorted({*ARGUMENTS, *AGGREGATIONS})
            hint = did_you_mean(token.text, known) or f"there are: {', '.join(known)}"
            raise self._fault(f"there is no function '{token.text}'", token.at, hint=hint)
        return FunctionCall(name=token.text, args=self._arguments(), at=token.at)

    def _arguments(self) -> tuple[Expression, ...]:
        self.expect("(")
        found: list[Expression] = []
        while not self._accept(")"):
            found.append(self.level(0))
            if not self._is(")"):
                self.expect(",", "',' or ')'")
        return tuple(found)

    def _aggregate(self, token: PromqlToken) -> Aggregate:
        op = token.text.lower()
        if op not in AGGREGATIONS:
            raise self._unsupported(f"'{op}'", token.at)
        without, labels = self._grouping()
        args = self._arguments()
        if not labels and not without:
            without, labels = self._grouping()
        if len(args) != 1 + (op in PARAMETRIC):
            takes = "a number and a vector" if op in PARAMETRIC else "one vector"
            raise self._fault(f"'{op}' takes {takes}, and has {len(args)} arguments", token.at)
        parameter = args[0] if op in PARAMETRIC else None
        if parameter is not None and not isinstance(parameter, Number):
            raise self._fault(f"the first argument of '{op}' is a number", token.at)
        value = None if parameter is None else parameter.value
        made = Aggregate(op=op, of=args[-1], parameter=value, labels=labels, at=token.at)
        return replace(made, without=without)

    def _grouping(self) -> tuple[bool, tuple[str, ...]]:
        if self._accept("by"):
            return False, self._labels()
        if self._accept("without"):
            return True, self._labels()
        return False, ()
