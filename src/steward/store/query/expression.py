"""A small form for common questions: `mean(gpu.busy_share) by entity every 1m since 1h`.

    WHAT(METRIC) [, WHAT(METRIC)]... [by FIELD, ...] [every TIME] [since TIME] [from T to T]
        [where CONDITION and CONDITION ...] [top N | bottom N]

`WHAT` is mean, min, max, sum, count, first, last, median, p90, p95, p99 or stddev. A field is
entity, node, kind, job, run, workload or phase. A condition compares a field with a text (`=`,
`!=`, `~` with `*` for anything, `!~`) or a metric with a number. `since` counts back from the
newest sample, and with `every` it begins with a whole step; `to` is not part of the time. Values
that are null do not count. `top` and `bottom` go by the first value. It becomes SQL, over the
coarsest tier that answers exactly (see `tier_choice.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from steward.errors import StewardError, did_you_mean
from steward.store.query.tier_choice import Piece, pieces, steps_sql
from steward.store.query.views import SPAN_KINDS, quoted, text_literal

__all__ = ["Expression", "is_sql", "parse"]

# What begins so is SQL, even if it is not allowed: DuckDB's message is then the better one.
_SQL = re.compile(
    r"(--|/\*|\(|(select|with|from|describe|summarize|explain|values|show|pivot|unpivot|table|copy|"
    r"attach|detach|use|pragma|create|alter|drop|insert|update|delete|truncate|merge|set|reset|call|"
    r"install|load|export|import|begin|commit|checkpoint|vacuum|analyze|execute|prepare)\b"
    r"|.*\bfrom\s+(telemetry|other|logs|spans|events))",
    re.IGNORECASE | re.DOTALL,
)
_TOKEN = re.compile(
    r"\s*(?:(?P<text>\"[^\"]*\"|'[^']*')|(?P<number>-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.:-]))"
    r"|(?P<word>[A-Za-z_0-9][\w.:/@*+-]*)|(?P<sign>!=|!~|<=|>=|[(),=~<>]))"
)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_TIME = re.compile(r"^(\d+(?:\.\d+)?)(ms|s|min|m|h|d|w)$")
_PLAIN = {
    "mean": "avg({0})", "min": "min({0})", "max": "max({0})", "sum": "sum({0})",
    "count": "count({0})", "first": "arg_min({0}, t_s)", "last": "arg_max({0}, t_s)",
    "median": "median({0})", "p90": "quantile_cont({0}, 0.9)", "p95": "quantile_cont({0}, 0.95)",
    "p99": "quantile_cont({0}, 0.99)", "stddev": "stddev_samp({0})",
}  # fmt: skip
_FROM_TIER = {
    "mean": "sum({mean} * {count}) / nullif(sum({count}), 0)",
    "min": "min({min})",
    "max": "max({max})",
    "sum": "sum({mean} * {count})",
    "count": "coalesce(sum({count}), 0)::BIGINT",
}
FIELDS = ("entity", "node", "kind", *SPAN_KINDS)
_CLAUSES = ("by", "every", "since", "from", "where", "top", "bottom")


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One thing that rows have to fulfil."""

    name: str
    sign: str
    value: str | float

    @property
    def sql(self) -> str:
        """The condition as SQL has it."""
        name = quoted(self.name)
        if isinstance(self.value, float):
            return f"{name} {self.sign.replace('!=', '<>')} {self.value!r}"
        if self.sign in ("~", "!~"):
            negated = "NOT " if self.sign == "!~" else ""
            return f"{negated}({name} GLOB {text_literal(_glob(self.value))})"
        return f"{name} {self.sign.replace('!=', '<>')} {text_literal(self.value)}"


@dataclass(slots=True, kw_only=True)
class Expression:
    """A parsed query."""

    values: list[tuple[str, str]] = field(default_factory=list)  # what, metric
    by: list[str] = field(default_factory=list)
    every_s: float | None = None
    since_s: float | None = None
    from_s: float | None = None
    to_s: float | None = None
    where: list[Condition] = field(default_factory=list)
    most: int | None = None  # so many rows: those with the greatest first value
    least_first: bool = False  # or those with the least

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that it names."""
        names = (*(name for _, name in self.values), *(each.name for each in self.where))
        return tuple(dict.fromkeys(name for name in names if name not in FIELDS))

    def time(self, newest_s: float) -> tuple[float, float]:
        """Return the queried time range, given the newest sample."""
        from_s = self.from_s if self.from_s is not None else 0.0
        if self.since_s is not None:
            since_s = newest_s - self.since_s
            step_s = self.every_s
            from_s = max(from_s, since_s // step_s * step_s if step_s else since_s)
        return from_s, self.to_s if self.to_s is not None else float("inf")

    def sql(self, newest_s: float) -> str:
        """Return the query as SQL."""
        rows, forms = self._rows(*self.time(newest_s))
        keys = [quoted(name) for name in self.by]
        if self.every_s is not None:
            keys.insert(0, f"floor(t_s / {self.every_s!r}) * {self.every_s!r} AS t_s")
        picked = [
            f"{_formed(forms[what], name)} AS {quoted(f'{what}({name})')}"
            for what, name in self.values
        ]
        numbers = ", ".join(str(number + 1) for number in range(len(keys)))
        grouped = f" GROUP BY {numbers}" if keys else ""
        order = f" ORDER BY {numbers}" if keys else ""
        if self.most is not None:
            first = quoted("{}({})".format(*self.values[0]))
            ties = f", {numbers}" if keys else ""
            way = "ASC" if self.least_first else "DESC"
            order = f" ORDER BY {first} {way} NULLS LAST{ties} LIMIT {self.most}"
        return f"SELECT {', '.join([*keys, *picked])} FROM {rows}{grouped}{order}"  # noqa: S608 - names and texts are quoted

    def _rows(self, from_s: float, to_s: float) -> tuple[str, dict[str, str]]:
        """Choose what to read: the coarsest tier that answers exactly, or samples."""
        metrics = [*dict.fromkeys(name for _, name in self.values)]
        conditions = [each.sql for each in self.where]
        labels = {*self.by, *(each.name for each in self.where)}
        simple = all(what in _FROM_TIER and name not in FIELDS for what, name in self.values)
        if simple and labels <= {"entity", "node", "kind"}:
            found = pieces(from_s, to_s, every_s=self.every_s)
            if found[0].tier is not None:
                selects = (steps_sql(piece, metrics, conditions) for piece in found)
                return f"({' UNION ALL BY NAME '.join(selects)})", _FROM_TIER
        known = " OR ".join(f"{quoted(name)} IS NOT NULL" for name in metrics)
        where = [*Piece(from_s=from_s, to_s=to_s).conditions(), *conditions, f"({known})"]
        return f"telemetry WHERE {' AND '.join(where)}", _PLAIN


def is_sql(text: str) -> bool:
    """Return True if a question is SQL."""
    return bool(_SQL.match(text.lstrip()))


def parse(text: str) -> Expression:
    """Parse a question; a mistake is reported with its place."""
    return _Parser(text).expression()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    place: int


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [*self._split()]
        self._next = 0

    def _split(self) -> Iterator[_Token]:
        place = 0
        while self._text[place:].strip():
            match = _TOKEN.match(self._text, place)
            if match is None or match.lastgroup is None:
                rest = len(self._text[place:]) - len(self._text[place:].lstrip())
                raise self._fault(f"cannot read '{self._text[place:].strip()[:20]}'", place + rest)
            yield _Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup))
            place = match.end()

    def expression(self) -> Expression:
        made = Expression()
        made.values.append(self._value())
        while self._take_if(","):
            made.values.append(self._value())
        seen: set[str] = set()
        while self._next < len(self._tokens):
            place = self._tokens[self._next].place
            clause = self._keyword("a clause", _CLAUSES)
            if clause in seen:
                raise self._fault(f"'{clause}' is there twice", place)
            seen.add(clause)
            self._clause(clause, made)
        return made

    def _value(self) -> tuple[str, str]:
        sql = "or write SQL: it begins with SELECT, WITH or FROM"
        what = self._keyword("what to work out", tuple(_PLAIN), otherwise=sql)
        self._sign("(")
        metric = self._expect("word", "a metric")
        if metric.text in FIELDS and what != "count":
            raise self._fault(f"'{metric.text}' is a text; name a metric", metric.place)
        self._sign(")")
        return what, metric.text

    def _clause(self, clause: str, made: Expression) -> None:
        match clause:
            case "by":
                made.by += self._fields()
            case "every":
                made.every_s = self._duration()
            case "since":
                made.since_s = self._duration()
            case "from":
                made.from_s = self._moment()
                made.to_s = self._end(made.from_s) if self._take_if("to") else None
            case "top" | "bottom":
                if made.most is not None:
                    place = self._tokens[self._next - 1].place
                    raise self._fault("top and bottom exclude each other", place)
                made.most, made.least_first = self._number(), clause == "bottom"
            case _:
                made.where += self._conditions()

    def _fields(self) -> list[str]:
        found = [self._keyword("a field", FIELDS)]
        while self._take_if(","):
            found.append(self._keyword("a field", FIELDS))
        return found

    def _conditions(self) -> list[Condition]:
        found = [self._condition()]
        while self._take_if("and"):
            found.append(self._condition())
        return found

    def _condition(self) -> Condition:
        name = self._expect("word", "a field or a metric")
        sign = self._expect("sign", "=, !=, ~, !~, <, <=, > or >=")
        value = self._take("a text or a number")
        is_field = name.text in FIELDS
        if sign.text in ("~", "!~") and not is_field:
            known = ", ".join(FIELDS)
            raise self._fault(f"only a field can be like a text; fields: {known}", name.place)
        if value.kind == "number" and not is_field:
            return Condition(name=name.text, sign=sign.text, value=float(value.text))
        if not is_field:
            raise self._fault(f"'{name.text}' is compared with a number", value.place)
        if sign.text not in ("=", "!=", "~", "!~"):
            raise self._fault(f"{name.text} is a text: use =, !=, ~ or !~", sign.place)
        return Condition(name=name.text, sign=sign.text, value=value.text.strip("\"'"))

    def _duration(self) -> float:
        token = self._take("a time such as 30s, 5m or 1h")
        match = _TIME.match(token.text)
        if match is None or float(match[1]) == 0.0:
            problem = f"'{token.text}' is no time; write 500ms, 30s, 5m, 1h or 2d"
            raise self._fault(problem, token.place)
        return float(match[1]) * _UNITS[match[2]]

    def _number(self) -> int:
        token = self._expect("number", "a number")
        if not token.text.isdigit() or int(token.text) == 0:
            raise self._fault(f"'{token.text}' is no number of rows", token.place)
        return int(token.text)

    def _end(self, from_s: float) -> float:
        place = self._tokens[self._next].place if self._next < len(self._tokens) else 0
        to_s = self._moment()
        if to_s <= from_s:
            raise self._fault("the time ends before it begins", place)
        return to_s

    def _moment(self) -> float:
        token = self._take("a moment: seconds since 1970, or an ISO date")
        try:
            return float(token.text)
        except ValueError:
            pass
        try:
            date = datetime.fromisoformat(token.text.strip("\"'"))
        except ValueError:
            problem = (
                f"'{token.text}' is no moment; write 2026-11-15T14:00:00 or seconds since 1970"
            )
            raise self._fault(problem, token.place) from None
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()

    def _keyword(self, what: str, known: Sequence[str], *, otherwise: str = "") -> str:
        token = self._take(what)
        word = token.text.lower()
        if word not in known:
            near = did_you_mean(word, known)
            problem = f"'{token.text}' is not {what}; known: {', '.join(known)}"
            raise self._fault(problem, token.place, near or otherwise)
        return word

    def _sign(self, sign: str) -> None:
        token = self._take(f"'{sign}'")
        if token.text != sign:
            raise self._fault(f"'{sign}' is expected, not '{token.text}'", token.place)

    def _expect(self, kind: str, what: str) -> _Token:
        token = self._take(what)
        if token.kind != kind:
            raise self._fault(f"{what} is expected, not '{token.text}'", token.place)
        return token

    def _take(self, what: str) -> _Token:
        if self._next >= len(self._tokens):
            raise self._fault(f"{what} is expected, but it ends here", len(self._text))
        self._next += 1
        return self._tokens[self._next - 1]

    def _take_if(self, text: str) -> bool:
        there = self._next < len(self._tokens) and self._tokens[self._next].text.lower() == text
        self._next += there
        return there

    def _fault(self, problem: str, place: int, near: str = "") -> StewardError:
        hint = near or "for example: mean(gpu.busy_share) by entity every 1m since 1h"
        return StewardError(problem, where=f"query, column {place + 1}", hint=hint)


def _glob(text: str) -> str:
    """Only `*` means something; DuckDB's other signs stand for themselves."""
    return re.sub(r"([?\[])", r"[\1]", text)


def _formed(form: str, name: str) -> str:
    partitions = {each: quoted(f"{name}.{each}") for each in ("min", "max", "mean", "count")}
    return form.format(quoted(name).replace("{", "{{").replace("}", "}}"), **partitions)
