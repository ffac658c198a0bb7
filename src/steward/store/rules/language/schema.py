"""The JSON schema of rule files, for editors, written from the table of fields."""

from __future__ import annotations

from steward.store.rules.language.fields import SHAPES, TERM_KINDS, Field, Kind, Shape

__all__ = ["rule_schema"]

# An editor reads `502` and `true` as a number and a flag; in a rule they are text all the same.
_TEXT: dict[str, object] = {"type": ["string", "number", "boolean", "null"]}
_DURATION: dict[str, object] = {
    "type": "string",
    "pattern": r"^[-+]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$",
}
_PLAIN: dict[Kind, dict[str, object]] = {
    Kind.TEXT: _TEXT,
    Kind.TEXTS: {"type": ["array", "null"], "items": _TEXT},
    Kind.WHOLE: {"type": "integer", "minimum": 0},
    Kind.COUNT: {"type": "integer"},
    Kind.NUMBER: {"type": "number"},
    Kind.FLAG: {"type": "boolean"},
    Kind.DURATION: _DURATION,
}


def rule_schema() -> dict[str, object]:
    """Return the schema. It knows the fields; `steward rules check` knows what must fit together.

    >>> rule_schema()["title"]
    'Rule file'
    """
    shapes = {name: _shape(shape) for name, shape in SHAPES.items()}
    shapes["term"] = {"anyOf": [_TEXT, shapes["term"]]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Rule file",
        "$ref": "#/$defs/document",
        "$defs": shapes,
    }


def _shape(shape: Shape) -> dict[str, object]:
    fields = [each for each in shape.fields.values() if not each.only_lenient]
    found: dict[str, object] = {
        "type": "object",
        "description": shape.doc,
        "additionalProperties": False,
        "properties": {each.name: _field(each) for each in fields},
    }
    if required := [each.name for each in fields if each.required]:
        found["required"] = required
    one_of = {"term": TERM_KINDS, "extract": ("regex", "jq"), "root": ("set", "sequence")}
    if shape.name in one_of:
        found["oneOf"] = [{"required": [name]} for name in one_of[shape.name]]
    return found


def _field(field: Field) -> dict[str, object]:
    inside = {"$ref": f"#/$defs/{field.shape}"}
    if field.kind in _PLAIN:
        kind = dict(_PLAIN[field.kind])
    elif field.kind is Kind.CHOICE:
        kind = {"enum": list(field.choices)}
    elif field.kind is Kind.ONE:
        kind = dict(inside)
    elif field.kind is Kind.NAMED:
        kind = {"type": "object", "additionalProperties": inside}
    else:
        kind = {"type": "array", "items": inside}
    return {**kind, "description": field.doc}
