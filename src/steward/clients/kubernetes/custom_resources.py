"""Our own resources, from `TrainingJob` to `OptimizationPolicy`, as definitions for the API server.

The one source of what they may contain: manifests and chart are written from it, and the API double
of the tests validates by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steward.clients.kubernetes.annotations import DOMAIN
from steward.clients.kubernetes.off_hours import DAYS, TIME, TIME_OR_MIDNIGHT
from steward.model.site import Autonomy

__all__ = [
    "API_VERSION",
    "OPTIMIZATION_POLICIES",
    "RESOURCE_POOLS",
    "TENANT_SHARES",
    "TRAINING_JOBS",
    "custom_resources",
]

VERSION = "v1alpha1"
API_VERSION = f"{DOMAIN}/{VERSION}"
TRAINING_JOBS = f"/apis/{API_VERSION}/trainingjobs"
TENANT_SHARES = f"/apis/{API_VERSION}/tenantshares"
RESOURCE_POOLS = f"/apis/{API_VERSION}/resourcepools"
OPTIMIZATION_POLICIES = f"/apis/{API_VERSION}/optimizationpolicies"
Schema = dict[str, Any]

_PODS: Schema = {"type": "integer", "minimum": 1, "maximum": 10_000}


def _rule(rule: str, message: str) -> Schema:
    """Return a CEL rule and what is said where it does not hold."""
    return {"rule": rule, "message": message}


_CONDITION: Schema = {
    "type": "object",
    "required": ["type", "status", "reason", "message", "lastTransitionTime"],
    "properties": {
        "type": {"type": "string", "maxLength": 316},
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": {"type": "string", "maxLength": 1024, "minLength": 1},
        "message": {"type": "string", "maxLength": 32_768},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "observedGeneration": {"type": "integer", "minimum": 0},
    },
}
_CONDITIONS: Schema = {
    "type": "array",
    "items": _CONDITION,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
}
_TRAINING_JOB: Schema = {
    "type": "object",
    "required": ["template"],
    "properties": {
        "pods": {
            **_PODS,
            "default": 1,
            "description": "how many pods run at the same time",
            "x-kubernetes-validations": [_rule("self == oldSelf", "is fixed")],
        },
        "elastic": {
            "type": "object",
            "required": ["minPods", "maxPods"],
            "description": "with how few and how many pods it can go on",
            "properties": {"minPods": _PODS, "maxPods": _PODS},
        },
        "saveSeconds": {
            "type": "integer",
            "minimum": 0,
            "maximum": 86_400,
            "description": "TERM makes it save within this time; without it, it is not preempted",
        },
        "backoffLimit": {"type": "integer", "minimum": 0, "maximum": 1000, "default": 0},
        "template": {
            "type": "object",
            "description": "the pods, as in a Job; read once, when the Job is created",
            "x-kubernetes-preserve-unknown-fields": True,
        },
    },
    "x-kubernetes-validations": [
        _rule(
            "!has(self.elastic) || "
            "(self.elastic.minPods <= self.pods && self.pods <= self.elastic.maxPods)",
            "pods has to be between elastic.minPods and elastic.maxPods",
        )
    ],
}
_TRAINING_STATUS: Schema = {
    "type": "object",
    "properties": {
        "phase": {
            "type": "string",
            "enum": [
                "Refused",
                "Pending",
                "Starting",
                "Running",
                "Suspended",
                "Succeeded",
                "Failed",
            ],
        },
        "changes": {
            "type": "integer",
            "minimum": 0,
            "description": "how often the phase has changed",
        },
        "jobName": {"type": "string"},
        "jobUid": {"type": "string"},
        "decision": {"type": "string", "description": "the last decision about it"},
        "observedGeneration": {"type": "integer", "minimum": 0},
        "conditions": _CONDITIONS,
    },
}
_TENANT_SHARE: Schema = {
    "type": "object",
    "required": ["namespace"],
    "properties": {
        "namespace": {"type": "string", "minLength": 1, "maxLength": 63},
        "weight": {
            "type": "number",
            "default": 1,
            "maximum": 1_000_000,
            "x-kubernetes-validations": [_rule("self > 0.0", "is above 0")],
        },
        "guaranteedGpus": {"type": "integer", "minimum": 0, "maximum": 10_000_000, "default": 0},
        "pool": {
            "type": "string",
            "maxLength": 253,
            "description": "the ResourcePool of the guarantee; not needed where there is one",
        },
    },
}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_RESOURCE_POOL: Schema = {
    "type": "object",
    "properties": {
        "nodeSelector": {
            "type": "object",
            "maxProperties": 16,
            "additionalProperties": {"type": "string", "maxLength": 63},
            "description": "labels of its nodes; without any, all nodes",
        },
        "resourceNames": {
            "type": "array",
            "minItems": 1,
            "maxItems": 16,
            "items": {"type": "string", "minLength": 3, "maxLength": 317},
            "x-kubernetes-list-type": "set",
            "x-kubernetes-validations": [
                _rule(
                    "self.all(each, each.contains('/'))",
                    "are extended resources, like nvidia.com/gpu",
                )
            ],
            "description": "what counts as a GPU; without any, whole GPUs of all makes",
        },
        "lendIdleGuarantees": {
            "type": "boolean",
            "default": True,
            "description": "whether jobs beyond their guarantee may use those of others",
        },
        "borrowerPriorityClass": {
            "type": "string",
            "maxLength": 253,
            "description": "the priority class that such jobs have to have",
        },
        "callBackSeconds": {
            "type": "integer",
            "minimum": 1,
            "maximum": 86_400,
            "description": "the longest time in which such jobs have to save and end",
        },
    },
    "x-kubernetes-validations": [
        _rule(
            "!has(self.lendIdleGuarantees) || self.lendIdleGuarantees || "
            "(!has(self.borrowerPriorityClass) && !has(self.callBackSeconds))",
            "a pool that lends nothing has no borrowers",
        )
    ],
}
_POOL_STATUS: Schema = {
    "type": "object",
    "properties": {
        "gpus": {**_COUNT, "description": "of nodes that are ready"},
        "guaranteed": {**_COUNT, "description": "to tenants, by TenantShares"},
        "used": {**_COUNT, "description": "by pods"},
        "lent": {**_COUNT, "description": "used, and guaranteed to another namespace"},
        "free": {**_COUNT, "description": "unused, on nodes that take pods"},
        "observedGeneration": _COUNT,
        "conditions": _CONDITIONS,
    },
}

_CEILING: dict[str, Schema] = {
    "autonomy": {
        "type": "string",
        "enum": [each.value for each in Autonomy],
        "description": "what may be done with running jobs of this namespace without a person; "
        "never more than the site allows",
    },
    "actions": {
        "type": "array",
        "maxItems": 8,
        "items": {"type": "string", "enum": ["preempt", "reprioritise", "resize"]},
        "x-kubernetes-list-type": "set",
        "description": "which actions on them may be taken; without it, all",
    },
    "disturbancesPerJobPerDay": {
        "type": "integer",
        "minimum": 0,
        "maximum": 1000,
        "description": "how often one job may be stopped or resized in a day",
    },
}
_LIMITS_SOMETHING: Schema = _rule(
    "!has(self.autonomy) || self.autonomy in ['approve', 'auto'] || "
    "(!has(self.actions) && !has(self.disturbancesPerJobPerDay))",
    "where nothing is done without a person, there is nothing to limit",
)
_WINDOW: Schema = {
    "type": "object",
    "required": ["from", "to"],
    "properties": {
        "days": {
            "type": "array",
            "minItems": 1,
            "maxItems": 7,
            "items": {"type": "string", "enum": [*DAYS]},
            "x-kubernetes-list-type": "set",
            "description": "on which it begins; without it, all",
        },
        "from": {"type": "string", "maxLength": 5, "pattern": f"^{TIME}$"},
        "to": {
            "type": "string",
            "maxLength": 5,
            "pattern": f"^{TIME_OR_MIDNIGHT}$",
            "description": "of the next day, where it is earlier than from",
        },
    },
    "x-kubernetes-validations": [_rule("self.from != self.to", "to is another time than from")],
}
_OFF_HOURS: Schema = {
    "type": "object",
    "required": ["windows"],
    "description": "when these settings hold instead of those beside it, which hold otherwise",
    "properties": {
        "windows": {
            "type": "array",
            "minItems": 1,
            "maxItems": 16,
            "items": _WINDOW,
            "x-kubernetes-list-type": "atomic",
        },
        "timeZone": {
            "type": "string",
            "maxLength": 64,
            "pattern": "^[A-Za-z][A-Za-z0-9+_-]*(/[A-Za-z0-9][A-Za-z0-9+_-]*){0,2}$",
            "default": "UTC",
            "description": "a name of the IANA time zone database, as Europe/Berlin",
        },
        **_CEILING,
    },
    "x-kubernetes-validations": [
        _rule(
            "has(self.autonomy) || has(self.actions) || has(self.disturbancesPerJobPerDay)",
            "says nothing that would hold then",
        ),
        _LIMITS_SOMETHING,
    ],
}
_OPTIMIZATION_POLICY: Schema = {
    "type": "object",
    "minProperties": 1,
    "properties": {**_CEILING, "offHours": _OFF_HOURS},
    "x-kubernetes-validations": [_LIMITS_SOMETHING],
}
_POLICY_STATUS: Schema = {
    "type": "object",
    "properties": {"observedGeneration": _COUNT, "conditions": _CONDITIONS},
}


def custom_resources() -> tuple[dict[str, Any], ...]:
    """Return the definitions, as they are applied."""
    training = _definition(
        "TrainingJob",
        "trainingjobs",
        scope="Namespaced",
        short="tj",
        schema={"spec": _TRAINING_JOB, "status": _TRAINING_STATUS},
        columns=_columns(
            "Phase: string .status.phase",
            "Pods: integer .spec.pods",
            "Job: string .status.jobName",
            "Decision: string .status.decision",
            "Age: date .metadata.creationTimestamp",
            wide=["Job", "Decision"],
        ),
    )
    share = _definition(
        "TenantShare",
        "tenantshares",
        scope="Cluster",
        short="ts",
        schema={"spec": _TENANT_SHARE},
        columns=_columns(
            "Namespace: string .spec.namespace",
            "Weight: number .spec.weight",
            "Guaranteed: integer .spec.guaranteedGpus",
        ),
    )
    pool = _definition(
        "ResourcePool",
        "resourcepools",
        scope="Cluster",
        short="rp",
        schema={"spec": _RESOURCE_POOL, "status": _POOL_STATUS},
        columns=_columns(
            "GPUs: integer .status.gpus",
            "Guaranteed: integer .status.guaranteed",
            "Lent: integer .status.lent",
            "Free: integer .status.free",
            "Lends: boolean .spec.lendIdleGuarantees",
            'Ready: string .status.conditions[?(@.type=="Ready")].status',
        ),
    )
    policy = _definition(
        "OptimizationPolicy",
        "optimizationpolicies",
        scope="Namespaced",
        short="op",
        schema={"spec": _OPTIMIZATION_POLICY, "status": _POLICY_STATUS},
        columns=_columns(
            "Autonomy: string .spec.autonomy",
            "Actions: string .spec.actions",
            "Per day: integer .spec.disturbancesPerJobPerDay",
            'In effect: string .status.conditions[?(@.type=="InEffect")].status',
            'Off-hours: string .status.conditions[?(@.type=="OffHours")].status',
            "Generation: integer .status.observedGeneration",
            wide=["Generation"],
        ),
    )
    return training, share, pool, policy


def _columns(*each: str, wide: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return printer columns from `Name: type path`; those of `wide` only where it is asked for."""
    found = []
    for text in each:
        name, _, rest = text.partition(": ")
        type_, _, path = rest.partition(" ")
        column = {"name": name, "type": type_, "jsonPath": path}
        found.append({**column, "priority": 1} if name in wide else column)
    return found


def _definition(
    kind: str, plural: str, *, scope: str, short: str, schema: Schema, columns: list[Any]
) -> dict[str, Any]:
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": columns,
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "required": ["spec"],
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": {"type": "object"},
                    **schema,
                },
            }
        },
        **({"subresources": {"status": {}}} if "status" in schema else {}),
    }
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "shortNames": [short]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{DOMAIN}"},
        "spec": {"group": DOMAIN, "scope": scope, "names": names, "versions": [version]},
    }
