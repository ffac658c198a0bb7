"""The spec of every Job that is made here, by the operator and by `steward jobs submit`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steward.clients.kubernetes.objects import map_in

__all__ = ["job_spec"]

# A pod that was evicted, or whose node was lost, is replaced, and counts as no failure.
_DISRUPTED = {
    "rules": [
        {
            "action": "Ignore",
            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
        }
    ]
}


def job_spec(template: Mapping[str, Any], *, pods: int, retries: int) -> dict[str, Any]:
    """Return a spec of `pods` pods that run together; `retries` of them may fail.

    Kubernetes takes a policy for failed pods only where containers are not restarted in place.
    """
    pod = {"restartPolicy": "Never", **map_in(template, "spec")}
    return {
        "parallelism": pods,
        "completions": pods,
        "completionMode": "Indexed",
        "backoffLimit": retries,
        **({"podFailurePolicy": _DISRUPTED} if pod["restartPolicy"] == "Never" else {}),
        "template": {**template, "spec": pod},
    }
