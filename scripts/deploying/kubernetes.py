"""Roles for Kubernetes, from the table of requests that steward makes."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import yaml

from steward import __version__
from steward.clients.kubernetes.annotations import DOMAIN
from steward.clients.kubernetes.calls import KubeRole, calls_of
from steward.clients.kubernetes.custom_resources import custom_resources

__all__ = ["kubernetes_files", "role_rules"]

_HEAD = """\
# What steward may do, by what a site wants of it. Bind those that you allow, and no others:
#
#   kubectl apply -f roles.yaml
#   kubectl create clusterrolebinding steward-observe --clusterrole=steward-observe \\
#     --serviceaccount=steward:steward
#   kubectl -n bio create rolebinding steward-jobs --clusterrole=steward-jobs \\
#     --serviceaccount=steward:steward
"""


def kubernetes_files() -> dict[str, str]:
    """Return manifests for kubectl and kustomize, and the same as a chart, by their paths."""
    definitions = _documents(*custom_resources())
    operator = _documents(*_operator(f"steward:{__version__}", "steward"))
    chart = _documents(*_operator("{{ .Values.image }}", "{{ .Release.Namespace }}"))
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["crds.yaml", "roles.yaml", "users.yaml", "operator.yaml"],
    }
    about = {
        "apiVersion": "v2",
        "name": "steward",
        "description": "TrainingJobs, and the operator that makes Jobs of them",
        "version": __version__,
        "appVersion": __version__,
    }
    return {
        "kubernetes/crds.yaml": definitions,
        "kubernetes/roles.yaml": _HEAD + _documents(*_roles()),
        "kubernetes/users.yaml": _documents(*_users()),
        "kubernetes/operator.yaml": operator,
        "kubernetes/kustomization.yaml": _documents(kustomization),
        "helm/steward/Chart.yaml": _documents(about),
        "helm/steward/values.yaml": _documents({"image": f"steward:{__version__}"}),
        "helm/steward/crds/crds.yaml": definitions,
        "helm/steward/templates/roles.yaml": _documents(*_roles()),
        "helm/steward/templates/users.yaml": _documents(*_users()),
        "helm/steward/templates/operator.yaml": chart,
    }


def _documents(*each: Any) -> str:  # noqa: ANN401 - whatever YAML can hold
    write = {"Dumper": _Plain, "sort_keys": False, "width": 95}
    return "---\n".join(yaml.dump(one, **write) for one in each)


class _Plain(yaml.SafeDumper):  # type: ignore[misc]
    """Writes what is used twice twice: people and tools read manifests without anchors."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - of the base class
        return True


def _roles() -> list[dict[str, Any]]:
    """Return one ClusterRole for each part that can be allowed or left out."""
    return [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": f"steward-{role.value}"},
            "rules": role_rules(role),
        }
        for role in KubeRole
    ]


def _users() -> list[dict[str, Any]]:
    """Return what people need beside the roles that Kubernetes has, which these are added to."""
    group = "rbac.authorization.k8s.io"
    verbs = {"edit": ["create", "patch", "delete"], "view": ["get", "list", "watch"]}
    return [
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": {
                "name": f"steward-users-{role}",
                "labels": {f"{group}/aggregate-to-{role}": "true"},
            },
            "rules": [{"apiGroups": [DOMAIN], "resources": ["trainingjobs"], "verbs": allowed}],
        }
        for role, allowed in verbs.items()
    ]


def _operator(image: str, namespace: str) -> list[dict[str, Any]]:
    """Return the operator: its account, what that may do, and two pods of which one works."""
    name, labels = "steward-operator", {"app.kubernetes.io/name": "steward-operator"}
    here = {"name": name, "namespace": namespace}
    group = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": here},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", **here}],
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {**here, "labels": labels},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": _pods(image, namespace)},
            },
        },
    ]


def _pods(image: str, namespace: str) -> dict[str, Any]:
    by_field = {"fieldRef": {"fieldPath": "metadata.name"}}
    return {
        "serviceAccountName": "steward-operator",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "operator",
                "image": image,
                "args": ["kubernetes", "operator", "--lease-namespace", namespace],
                "env": [{"name": "POD_NAME", "valueFrom": by_field}],
                "resources": {
                    "requests": {"cpu": "50m", "memory": "160Mi"},
                    "limits": {"memory": "400Mi"},
                },
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    }


def role_rules(role: KubeRole) -> list[dict[str, Any]]:
    """Return the rules of a role: resources with the same verbs are one rule."""
    verbs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for call in calls_of(role):
        verbs[call.group, call.resource].append(call.verb)
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, resource), each in verbs.items():
        alike[group, tuple(each)].append(resource)
    return [
        {"apiGroups": [group], "resources": resources, "verbs": list(each)}
        for (group, each), resources in alike.items()
    ]
