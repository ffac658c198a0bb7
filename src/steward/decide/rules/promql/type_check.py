"""Type check of an expression, before it is evaluated."""

from __future__ import annotations

from steward.decide.rules.promql.expression import (
    Aggregate,
    Binary,
    Expression,
    FunctionCall,
    Number,
    Selector,
    walk,
)
from steward.decide.rules.promql.functions import ARGUMENTS, OVER_RANGE
from steward.decide.rules.promql.lexer import fault
from steward.decide.rules.promql.metric_columns import LABELS, SAME, MetricColumn, column_of
from steward.errors import StewardError, did_you_mean

__all__ = ["Kind", "across", "check", "kind_of"]

Kind = str  # "n": a number, "v": a vector, "r": the past of a vector
_COMPARE = ("==", "!=", "<", "<=", ">", ">=")
_SETS = ("and", "or", "unless")
_OF_COUNTERS = ("rate", "irate", "increase")
_WORDS = {"n": "a number", "v": "series", "r": "a range such as x[5m]"}


def check(expression: Expression, expr: str) -> dict[Selector, MetricColumn]:
    """Return the column of each selector; raise the first type error."""
    kind = kind_of(expression, expr)
    if kind == "r":
        raise _error("a range is no condition", expr, expression.at, "put a function around it")
    columns = {each: _column(each, expr) for each in walk(expression) if isinstance(each, Selector)}
    if kind == "n" or not columns:
        raise _error("no series is looked at", expr, expression.at, "name a metric")
    if isinstance(expression, Binary) and expression.as_bool:
        hint = "leave out 'bool': what does not hold has to vanish"
        raise _error("with 'bool' this always holds", expr, expression.at, hint)
    _check_counters(expression, columns, expr)
    _check_absences(expression, expr)
    _check_labels(expression, columns, expr)
    return columns


def kind_of(expression: Expression, expr: str) -> Kind:
    """Return the kind of an expression: number, vector or range; raise on a type error."""
    match expression:
        case Number():
            return "n"
        case Selector(range_ns=range_ns):
            return "r" if range_ns else "v"
        case Aggregate(of=of, op=op, at=at):
            if kind_of(of, expr) != "v":
                raise _error(f"'{op}' takes series", expr, at, "give it x, not x[5m] or a number")
            return "v"
        case FunctionCall():
            return _called(expression, expr)
    return _combined(expression, expr)


def across(expression: Expression) -> bool:
    """Return whether the value of one entity can depend on others."""
    return any(
        isinstance(each, Aggregate)
        or (isinstance(each, Binary) and (each.on is not None or each.ignoring is not None))
        or (isinstance(each, FunctionCall) and each.name == "vector")
        for each in walk(expression)
    )


def _called(call: FunctionCall, expr: str) -> Kind:
    given = "".join(kind_of(each, expr) for each in call.args)
    changing = any(isinstance(each, FunctionCall) and each is not call for each in walk(call))
    if call.name in OVER_RANGE and changing:
        raise _error(f"'{call.name}' takes numbers that do not change", expr, call.at, "")
    if given not in ARGUMENTS[call.name]:
        takes = " or ".join(
            ", ".join(_WORDS[each] for each in kinds) or "nothing" for kinds in ARGUMENTS[call.name]
        )
        has = ", ".join(_WORDS[each] for each in given) or "nothing"
        raise _error(f"'{call.name}' takes {takes}, and has {has}", expr, call.at, "")
    return "n" if call.name == "time" else "v"


def _combined(binary: Binary, expr: str) -> Kind:
    kinds = kind_of(binary.left, expr) + kind_of(binary.right, expr)
    if "r" in kinds:
        hint = "put a function around it, such as avg_over_time(x[5m])"
        raise _error(f"'{binary.op}' takes no range", expr, binary.at, hint)
    if binary.op in _SETS and "n" in kinds:
        raise _error(f"'{binary.op}' stands between series, not numbers", expr, binary.at, "")
    if kinds == "nn" and binary.op in _COMPARE and not binary.as_bool:
        hint = f"write '{binary.op} bool', or compare a metric"
        raise _error("two numbers are compared", expr, binary.at, hint)
    matched = binary.on is not None or binary.ignoring is not None
    if matched and "n" in kinds:
        raise _error("'on' and 'ignoring' stand between series", expr, binary.at, "")
    return "n" if kinds == "nn" else "v"


def _column(selector: Selector, expr: str) -> MetricColumn:
    found = column_of(selector, expr)
    for each in selector.matchers:
        known = found.foreign or each.label in LABELS or each.label in found.ignores
        if not known:
            hint = did_you_mean(each.label, LABELS) or f"there are: {', '.join(sorted(LABELS))}"
            raise _error(f"no metric of ours has a label '{each.label}'", expr, each.at, hint)
    return found


def _check_counters(
    expression: Expression, columns: dict[Selector, MetricColumn], expr: str
) -> None:
    fine = {
        id(each.args[0])
        for each in walk(expression)
        if isinstance(each, FunctionCall) and each.name in _OF_COUNTERS
    }
    for each in walk(expression):
        if isinstance(each, Selector) and columns[each].rises and id(each) not in fine:
            hint = f"write rate({each.name}[5m])"
            problem = f"'{each.name}' is a counter, kept as a rate"
            raise _error(problem, expr, each.at, hint)


def _check_absences(expression: Expression, expr: str) -> None:
    for each in walk(expression):
        match each:
            case FunctionCall(name="absent" | "absent_over_time", args=(Selector(),)):
                pass
            case FunctionCall(name="absent" | "absent_over_time"):
                hint = f"write {each.name}(METRIC)"
                raise _error(f"'{each.name}' takes one metric", expr, each.at, hint)


def _check_labels(expression: Expression, columns: dict[Selector, MetricColumn], expr: str) -> None:
    """Refuse labels that no series has: they would put everything into one group."""
    if any(column.foreign for column in columns.values()):
        return
    for each in walk(expression):
        named: tuple[str, ...] = ()
        if isinstance(each, Aggregate):
            named = each.labels
        elif isinstance(each, Binary):
            named = (*(each.on or ()), *(each.ignoring or ()), *each.taken)
        for label in named:
            if label not in LABELS or label in SAME:
                known = LABELS - SAME.keys()
                hint = did_you_mean(label, known) or f"there are: {', '.join(sorted(known))}"
                raise _error(f"no metric of ours has a label '{label}'", expr, each.at, hint)


def _error(problem: str, expr: str, at: int, hint: str) -> StewardError:
    return fault(problem, expr, at, hint=hint)
