"""Validates our own resources by their definitions, as the API server does, CEL rules included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from beds.kube_rules import broken_rule
from steward.clients.kubernetes.custom_resources import custom_resources


def _closed(schema: Any) -> Any:
    """Refuse unknown fields, which the server would prune: what is lost in silence is a fault."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _closed(value) for key, value in schema.items()}
    kept = schema.get("x-kubernetes-preserve-unknown-fields")
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object" and not kept:
        made["additionalProperties"] = False
    return made


_CONDITIONS = custom_resources()[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"][
    "properties"
]["status"]["properties"]["conditions"]
_TEXT = {"type": "string"}
_KUEUE: dict[str, Any] = {  # of `apis/kueue/v1beta2`, those parts that are written here
    "workloads": {
        "type": "object",
        "properties": {
            "status": {
                "type": "object",
                "properties": {
                    "conditions": {**_CONDITIONS, "maxItems": 16},
                    "admissionChecks": {
                        "type": "array",
                        "maxItems": 8,
                        "items": {
                            "type": "object",
                            "required": ["name", "state", "lastTransitionTime", "message"],
                            "additionalProperties": False,
                            "properties": {
                                "name": {"type": "string", "minLength": 1, "maxLength": 316},
                                "state": {"enum": ["Pending", "Ready", "Retry", "Rejected"]},
                                "lastTransitionTime": _TEXT,
                                "message": {"type": "string", "maxLength": 32_768},
                                "podSetUpdates": {
                                    "type": "array",
                                    "maxItems": 8,
                                    "items": {
                                        "type": "object",
                                        "required": ["name"],
                                        "additionalProperties": False,
                                        "properties": {
                                            "name": {"type": "string", "maxLength": 63},
                                            "nodeSelector": {"additionalProperties": _TEXT},
                                        },
                                    },
                                },
                            },
                        },
                    },
                },
            }
        },
    },
    "admissionchecks": {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "required": ["controllerName"]},
            "status": {"type": "object", "properties": {"conditions": _CONDITIONS}},
        },
    },
}
_CHECKS = {
    each["spec"]["names"]["plural"]: jsonschema_rs.validator_for(
        _closed(each["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    )
    for each in custom_resources()
} | {plural: jsonschema_rs.validator_for(schema) for plural, schema in _KUEUE.items()}


_SCHEMAS = {
    each["spec"]["names"]["plural"]: each["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for each in custom_resources()
}


def wrong_field(plural: str, raw: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> str:
    """Return what is wrong with an object, or with its change, or an empty text."""
    if plural not in _CHECKS:
        return ""
    found = next(iter(_CHECKS[plural].iter_errors(dict(raw))), None)
    if found is not None:
        return f"{'.'.join(map(str, found.instance_path))}: {found.message}"
    before = None if old is None else dict(old)
    return broken_rule(_SCHEMAS[plural], dict(raw), before) if plural in _SCHEMAS else ""
