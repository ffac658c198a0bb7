"""The JSON schema of rule files, for editors, written from the table of fields."""

from __future__ import annotations

from steward.store.rules.language.fields import (
    MAPPINGS,
    TERM_KINDS,
    FieldKind,
    FieldSpec,
    MappingSpec,
)

__all__ = ["rule_schema"]

# An editor reads `502` and `true` as a number and a flag; in a rule they are text all the same.
_TEXT: dict[str, object] = {"type": ["string", "number", "boolean", "null"]}
_DURATION: dict[str, object] = {
    "type": "string",
    "pattern": r"^[-+]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$",
}
_PLAIN: dict[FieldKind, dict[str, object]] = {
    FieldKind.TEXT: _TEXT,
    FieldKind.TEXTS: {"type": ["array", "null"], "items": _TEXT},
    FieldKind.WHOLE: {"type": "integer", "minimum": 0},
    FieldKind.COUNT: {"type": "integer"},
    FieldKind.NUMBER: {"type": "number"},
    FieldKind.FLAG: {"type": "boolean"},
    FieldKind.DURATION: _DURATION,
}


def rule_schema() -> dict[str, object]:
    """Return the schema. It covers the fields; `steward rules check` also checks consistency.

    >>> rule_schema()["title"]
    'Rule file'
    """
    shapes = {name: _shape(shape) for name, shape in MAPPINGS.items()}
    shapes["term"] = {"anyOf": [_TEXT, shapes["term"]]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Rule file",
        "$ref": "#/$defs/document",
        "$defs": shapes,
    }


def _shape(shape: MappingSpec) -> dict[str, object]:
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


def _field(field: FieldSpec) -> dict[str, object]:
    inside = {"$ref": f"#/$defs/{field.shape}"}
    if field.kind in _PLAIN:
        kind = dict(_PLAIN[field.kind])
    elif field.kind is FieldKind.CHOICE:
        kind = {"enum": list(field.choices)}
    elif field.kind is FieldKind.ONE:
        kind = dict(inside)
    elif field.kind is FieldKind.NAMED:
        kind = {"type": "object", "additionalProperties": inside}
    else:
        kind = {"type": "array", "items": inside}
    return {**kind, "description": field.doc}
