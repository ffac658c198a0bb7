"""Tokenizer of PromQL: tokens with their places; raises on unknown characters."""

from __future__ import annotations

import re
from dataclasses import dataclass

from steward.errors import StewardError

__all__ = ["PromqlToken", "duration_ns", "fault", "tokenize"]

_NS = {
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
    "w": 7 * 86400 * 10**9,
    "y": 365 * 86400 * 10**9,
}
_DURATION = r"(?:\d+(?:ms|[smhdwy]))+"
_TOKEN = re.compile(
    rf"""(?P<space>\s+|\#[^\n]*)
    |(?P<duration>{_DURATION})(?![A-Za-z0-9_])
    |(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![A-Za-z0-9_.])
    |(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)
    |(?P<sign>=~|!~|==|!=|<=|>=|[-+*/%^()<>={{}}\[\],:@])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[0-7]{3}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
MOST_CHARACTERS = 20_000
MAX_TOKENS = 300  # ten times what our rules need; bounds the nesting
MOST_OPEN = 50


@dataclass(frozen=True, slots=True)
class PromqlToken:
    """A token of an expression; `at` is the index of its first character."""

    kind: str
    text: str
    at: int


def fault(problem: str, expr: str, at: int, *, hint: str = "") -> StewardError:
    """Build the error for a place in an expression."""
    near = expr[at : at + 20].strip() or "its end"
    return StewardError(f"{problem}, at character {at + 1} ({near})", where="promql", hint=hint)


def tokenize(expr: str) -> list[PromqlToken]:
    """Return the tokens, and one for the end."""
    if len(expr) > MOST_CHARACTERS:
        problem = f"the expression has {len(expr)} characters, more than {MOST_CHARACTERS}"
        raise StewardError(problem, where="promql", hint="cut it into several terms")
    tokens: list[PromqlToken] = []
    at = 0
    while at < len(expr):
        found = _TOKEN.match(expr, at)
        if found is None:
            raise fault("cannot be read as PromQL", expr, at, hint=_hint(expr[at]))
        kind = str(found.lastgroup)
        if kind == "string":
            tokens.append(PromqlToken(kind, _unquoted(found[0]), at))
        elif kind != "space":
            tokens.append(PromqlToken(kind, found[0], at))
        if len(tokens) > MAX_TOKENS:
            raise fault(f"the expression has more than {MAX_TOKENS} words", expr, at)
        at = found.end()
    _check_depth(tokens, expr)
    return [*tokens, PromqlToken("end", "", len(expr))]


def _check_depth(tokens: list[PromqlToken], expr: str) -> None:
    depth = 0
    for token in tokens:
        if token.kind == "sign":
            depth += (token.text == "(") - (token.text == ")")
        if depth > MOST_OPEN:
            raise fault(f"more than {MOST_OPEN} brackets are open", expr, token.at)


def _hint(character: str) -> str:
    if character in "\"'`":
        return "a text that begins with a quote needs one at its end"
    if character.isdigit():
        return "durations are written as 300ms, 5m or 1h30m, numbers as 0.3 or 1e9"
    return "see docs/rules/metrics.md for what can be written"


def _unquoted(text: str) -> str:
    if text[0] == "`":
        return text[1:-1]
    return _ESCAPE.sub(_unescaped, text[1:-1])


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if len(code) > 1 and code[0] in "ux":
        return chr(int(code[1:], 16))
    if len(code) == 3:
        return chr(int(code, 8))
    return _ESCAPES.get(code, code)


def duration_ns(text: str) -> int:
    """Return the nanoseconds of a duration token.

    >>> duration_ns("1h30m") // 10**9
    5400
    """
    pieces = re.findall(r"(\d+)(ms|[smhdwy])", text)
    return sum(int(count) * _NS[unit] for count, unit in pieces)
