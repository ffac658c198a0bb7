"""What the functions of jq cost that a program may use; figures are measured, then rounded up."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from steward.decide.rules.terms.programs.cost import NOTHING, STEP, Cost, plus, scaled, times

__all__ = ["ELEMENTS", "NUMBER", "OF_ARGUMENT", "PLAIN", "array", "compared", "literal"]

NUMBER = 25  # as long as one gets, or a date
_WHOLE = (0.0, 1.0, 0.0, 0.0)  # as long as the input


def literal(length: int) -> Cost:
    """Return the cost of a text or number that is written out."""
    return Cost(size=(length, 0, 0, 0), work=STEP, scalar=True)


def array(inside: Cost) -> Cost:
    """Return the cost of collecting outputs."""
    size = plus((2, 0, 0, 0), inside.size, inside.many)
    return Cost(size=size, work=plus(inside.work, (10, 0, 0, 0), scaled(inside.many, 5)))


def compared(one: Cost, other: Cost) -> Cost:
    """Return the cost of comparing each with each; whole objects are put in order for that."""
    cross = one.across(other)
    lengths = [
        times(each.size, against.many)
        for each, against in ((one, other), (other, one))
        if each.scalar
    ]
    work = scaled(lengths[0], 0.05) if lengths else scaled(cross.size, 4)
    return Cost(
        many=cross.many, size=scaled(cross.many, 5), work=plus(cross.work, work), scalar=True
    )


def _linear(work: float, *, grows: float = 1, scalar: bool = False) -> Cost:
    """Return the cost of one output that is as long as the input, or longer, or shorter."""
    return Cost(size=(2, grows, 0, 0), work=(5, work, 0, 0), scalar=scalar)


def _measure(work: float = 0.2, *, size: float = 10) -> Cost:
    """Return the cost of one number or word about the input."""
    return Cost(size=(size, 0, 0, 0), work=(5, work, 0, 0), scalar=True)


def _each(names: str, cost: Cost) -> dict[str, Cost]:
    return dict.fromkeys(names.split(), cost)


_DATE = Cost(size=(NUMBER, 0, 0, 0), work=(50, 2, 0, 0), scalar=True)
ELEMENTS = Cost(many=(0, 0.5, 0, 0), size=_WHOLE, work=(5, 5, 0, 0))  # `.[]`

PLAIN: Mapping[str, Cost] = (
    _each("true false null nan infinite", literal(5))
    | _each("not type length utf8bytelength halt toboolean isnan isinfinite isnormal", _measure())
    | _each("tonumber floor ceil round sqrt fabs abs", _measure(size=NUMBER))
    | _each("fromdate todate fromdateiso8601 todateiso8601", _DATE)
    | _each("any all", _measure(work=15))
    | _each("strings numbers booleans nulls", _linear(0.2, scalar=True))
    | _each("values arrays objects iterables scalars", _linear(0.2))
    | _each("first last", _linear(0.2))
    | _each("trim ltrim rtrim", _linear(1, scalar=True))
    | _each("ascii_downcase ascii_upcase", _linear(35, scalar=True))
    | _each("tostring tojson", _linear(5, grows=6, scalar=True))
    | _each("sort unique", _linear(25))
    | _each("min max", _linear(10))
    | _each("keys keys_unsorted", _linear(5, grows=4))
    | {
        "empty": Cost(many=NOTHING, size=NOTHING, work=STEP),
        "error": Cost(many=NOTHING, size=NOTHING, work=(5, 1, 0, 0)),
        "add": _linear(15),
        "reverse": _linear(10),
        "fromjson": _linear(5),
        "to_entries": _linear(35, grows=5),
        "from_entries": _linear(15),
    }
)


def _for_each(argument: Cost, work: float, *, scalar: bool) -> Cost:
    """Return the cost of looking at the whole input once for each output of the argument."""
    size = scaled(argument.many, 5) if scalar else times(argument.many, _WHOLE)
    more = plus(argument.size, times(argument.many, (10, work, 0, 0)))
    return Cost(many=argument.many, size=size, work=plus(argument.work, more), scalar=scalar)


def _trims(argument: Cost) -> Cost:
    return _for_each(argument, 1, scalar=False)


def _asks(argument: Cost) -> Cost:
    return _for_each(argument, 1, scalar=True)


def _contains(argument: Cost) -> Cost:
    pairs = NOTHING if argument.scalar else scaled(times(argument.size, _WHOLE), 0.25)
    return _asks(argument).working(pairs)


def _index(argument: Cost) -> Cost:
    # A text within a text is looked for at once, an array within an array at every place.
    again = NOTHING if argument.scalar else scaled(times(argument.size, _WHOLE), 0.5)
    found = _for_each(argument, 5, scalar=False)
    return Cost(many=found.many, size=scaled(found.size, 4), work=plus(found.work, again))


def _split(argument: Cost) -> Cost:
    found = _for_each(argument, 10, scalar=False)
    return Cost(
        many=found.many, size=plus(scaled(found.size, 4), scaled(found.many, 10)), work=found.work
    )


def _join(argument: Cost) -> Cost:
    found = _for_each(argument, 60, scalar=False)
    between = times(argument.size, _WHOLE)
    size = plus(scaled(found.size, 6), between)
    return Cost(many=found.many, size=size, work=plus(found.work, between), scalar=True)


def _select(test: Cost) -> Cost:
    return Cost(many=test.many, size=times(test.many, _WHOLE), work=plus(test.work, STEP))


def _map(each: Cost) -> Cost:
    return array(ELEMENTS.then(each))


def _any(each: Cost) -> Cost:
    made = ELEMENTS.then(each)
    return Cost(size=(5, 0, 0, 0), work=plus(made.work, scaled(made.many, 10)), scalar=True)


def _by(each: Cost) -> Cost:
    keys = _map(array(each))
    sorting = (
        plus(keys.size, (20, 30, 0, 0)) if each.scalar else scaled(plus(keys.size, _WHOLE), 30)
    )
    return Cost(size=(10, 3, 0, 0), work=plus(keys.work, sorting))


def _with_entries(each: Cost) -> Cost:
    return PLAIN["to_entries"].then(_map(each)).then(PLAIN["from_entries"])


def _first(of: Cost) -> Cost:
    return Cost(size=of.size, work=plus(of.work, STEP), scalar=of.scalar)


def _is_empty(of: Cost) -> Cost:
    return Cost(size=(5, 0, 0, 0), work=plus(of.work, STEP), scalar=True)


def _in(source: Cost) -> Cost:
    return _is_empty(compared(source, Cost(size=_WHOLE, work=STEP)))


def _error(message: Cost) -> Cost:
    return Cost(many=NOTHING, size=NOTHING, work=plus(message.work, message.size))


# Functions of one argument, which is a filter: its cost for what the function gives to it.
OF_ARGUMENT: Mapping[str, Callable[[Cost], Cost]] = {
    "select": _select,
    "map": _map,
    "any": _any,
    "all": _any,
    "first": _first,
    "last": _first,
    "isempty": _is_empty,
    "IN": _in,
    "error": _error,
    "has": _asks,
    "startswith": _asks,
    "endswith": _asks,
    "contains": _contains,
    "inside": _contains,
    "index": _index,
    "rindex": _index,
    "indices": _index,
    "split": _split,
    "join": _join,
    "ltrimstr": _trims,
    "rtrimstr": _trims,
    "sort_by": _by,
    "group_by": _by,
    "unique_by": _by,
    "min_by": _by,
    "max_by": _by,
    "with_entries": _with_entries,
}
