"""Evaluates the CEL rules of our own resources (`x-kubernetes-validations`), as the server does.

The server fills in defaults first, types values by their schema (a `number` is a double, also 2),
and evaluates a rule with `oldSelf` only where there was a value before. Here `cel-python` stands
for its cel-go: its costs and its libraries beyond the standard are not modelled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import celpy
from celpy import celtypes

__all__ = ["broken_rule", "rules_of", "with_defaults"]

RULES = "x-kubernetes-validations"
_PLAIN = {
    "integer": celtypes.IntType,
    "number": celtypes.DoubleType,
    "string": celtypes.StringType,
    "boolean": celtypes.BoolType,
}


def broken_rule(schema: Mapping[str, Any], new: Any, old: Any = None) -> str:
    """Return the first rule that an object breaks, with its place; empty where it breaks none."""
    filled = with_defaults(schema, new)
    before = None if old is None else with_defaults(schema, old)
    return next(_broken(schema, filled, before, ()), "")


def rules_of(schema: Mapping[str, Any]) -> list[str]:
    """Return all rules of a schema."""
    inner = [*schema.get("properties", {}).values()]
    inner += [schema[name] for name in ("items", "additionalProperties") if name in schema]
    own = [each["rule"] for each in schema.get(RULES, ())]
    return own + [rule for each in inner for rule in rules_of(each)]


def with_defaults(schema: Mapping[str, Any], value: Any) -> Any:
    """Return a value with the defaults of its schema."""
    if isinstance(value, list):
        return [with_defaults(schema.get("items", {}), each) for each in value]
    if not isinstance(value, dict):
        return value
    known = schema.get("properties", {})
    missing = {
        name: each["default"]
        for name, each in known.items()
        if name not in value and "default" in each
    }
    return {n: with_defaults(known.get(n, {}), each) for n, each in {**value, **missing}.items()}


def _broken(schema: Mapping[str, Any], new: Any, old: Any, path: tuple[str, ...]) -> Iterator[str]:
    for each in schema.get(RULES, ()):
        rule = each["rule"]
        changes = "oldSelf" in rule
        if (changes and old is None) or _holds(rule, schema, new, old if changes else None):
            continue
        yield f"{'.'.join(path)}: Invalid value: {each['message']}"
    if isinstance(new, dict):
        for name, inner in schema.get("properties", {}).items():
            if name in new:
                was = old.get(name) if isinstance(old, dict) else None
                yield from _broken(inner, new[name], was, (*path, name))
    if isinstance(new, list):
        for index, one in enumerate(new):  # rules of items see no old value: they have no identity
            yield from _broken(schema.get("items", {}), one, None, (*path, str(index)))


def _holds(rule: str, schema: Mapping[str, Any], new: Any, old: Any) -> bool:
    values = {"self": _typed(schema, new)}
    if old is not None:
        values["oldSelf"] = _typed(schema, old)
    try:
        return bool(_program(rule).evaluate(values))
    except celpy.CELEvalError:  # a field that is not there: the server refuses that, too
        return False


@lru_cache
def _program(rule: str) -> celpy.Runner:
    environment = celpy.Environment()
    return environment.program(environment.compile(rule))


def _typed(schema: Mapping[str, Any], value: Any) -> Any:
    """Return a value as CEL has it by its schema."""
    if isinstance(value, dict):
        known, other = schema.get("properties", {}), schema.get("additionalProperties", {})
        return celtypes.MapType(
            {
                celtypes.StringType(name): _typed(known.get(name, other), each)
                for name, each in value.items()
            }
        )
    if isinstance(value, list):
        return celtypes.ListType([_typed(schema.get("items", {}), each) for each in value])
    make = _PLAIN.get(schema.get("type", ""))
    return celpy.json_to_cel(value) if make is None else make(value)
