"""SARIF 2.1.0 as far as we write it, after the OASIS standard: names, types, and nothing else.

As in the standard's own schema, an object has only the properties that are defined for it; of
these, the ones that we never write are left out, so that whatever passes here passes there.
"""

from __future__ import annotations

from typing import Any

TEXT = {"type": "string"}
FILLED = {"type": "string", "minLength": 1}
URI = {"type": "string", "format": "uri", "minLength": 1}
LEVEL = {"enum": ["none", "note", "warning", "error"]}


def thing(required: str = "", **properties: Any) -> dict[str, Any]:
    """Return the schema of an object with these properties and no others."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": required.split(),
    }


def several(items: Any, *, least: int = 0, unique: bool = False) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least, "uniqueItems": unique}


BAG = {
    "type": "object",
    "properties": {"tags": several(TEXT, unique=True)},
}  # 3.8: the rest is free
MESSAGE = thing("text", text=TEXT)
MULTIFORMAT = thing("text", text=TEXT, markdown=TEXT)
REGION = thing(startLine={"type": "integer", "minimum": 1}, snippet=thing(text=TEXT))
PHYSICAL = {
    **thing(
        artifactLocation=thing(uri={"type": "string", "format": "uri-reference"}), region=REGION
    ),
    "anyOf": [{"required": ["address"]}, {"required": ["artifactLocation"]}],
}
LOCATION = thing(
    id={"type": "integer", "minimum": -1},
    physicalLocation=PHYSICAL,
    logicalLocations=several(thing(fullyQualifiedName=TEXT, kind=TEXT), unique=True),
    message=MESSAGE,
)
RULE = thing(
    "id",
    id=TEXT,
    shortDescription=MULTIFORMAT,
    fullDescription=MULTIFORMAT,
    help=MULTIFORMAT,
    helpUri=URI,
    defaultConfiguration=thing(level=LEVEL),
    properties=BAG,
)
RESULT = thing(
    "message",
    ruleId=TEXT,
    ruleIndex={"type": "integer", "minimum": -1},
    level=LEVEL,
    message=MESSAGE,
    locations=several(LOCATION),
    relatedLocations=several(LOCATION, unique=True),
    partialFingerprints={"type": "object", "additionalProperties": TEXT},
    occurrenceCount={"type": "integer", "minimum": 1},
    properties=BAG,
)
DRIVER = thing(
    "name",
    name=TEXT,
    semanticVersion=TEXT,
    informationUri=URI,
    rules=several(RULE, unique=True),
)
RUN = thing(
    "tool",
    tool=thing("driver", driver=DRIVER),
    invocations=several(
        thing(
            "executionSuccessful",
            executionSuccessful={"type": "boolean"},
            toolExecutionNotifications=several(thing("message", level=LEVEL, message=MESSAGE)),
        )
    ),
    results=several(RESULT),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
)
LOG = thing(
    "version runs",
    **{"$schema": URI, "version": {"enum": ["2.1.0"]}, "runs": several(RUN)},
)
