"""A Deployment in the API server double, and its controller, which acts when it is told to."""

from __future__ import annotations

from typing import Any

from beds.kubernetes import KubeDouble

COST = "controller.kubernetes.io/pod-deletion-cost"


class KubeDeployment:
    """As many pods as replicas; of too many, the one with the lowest deletion cost goes."""

    def __init__(self, double: KubeDouble, name: str = "llama", replicas: int = 0) -> None:
        self.double = double
        self.name = name
        self._made = 0
        selector = {"matchLabels": {"app": name}}
        meta = {"uid": f"uid-{name}", "name": name, "namespace": "serving"}
        spec = {"replicas": replicas, "selector": selector}
        double.put("deployments", {"metadata": meta, "spec": spec})

    @property
    def replicas(self) -> int:
        return int(self.double.named("deployments", self.name)["spec"]["replicas"])

    def set_replicas(self, count: int) -> None:
        """Scale it, as a person would."""
        raw = self.double.named("deployments", self.name)
        self.double.put("deployments", {**raw, "spec": {**raw["spec"], "replicas": count}})

    def pods(self) -> list[dict[str, Any]]:
        return [
            each
            for each in self.double.all("pods")
            if each["metadata"].get("labels", {}).get("app") == self.name
        ]

    def names(self) -> list[str]:
        return sorted(each["metadata"]["name"] for each in self.pods())

    def tick(self, *, ready: bool = True) -> None:
        """Delete what is ending, make or end pods, and let those that are there become ready."""
        for pod in self.pods():
            if "deletionTimestamp" in pod["metadata"]:
                self.double.delete("pods", pod["metadata"]["uid"])
        pods = sorted(self.pods(), key=_cost)
        for pod in pods[: max(0, len(pods) - self.replicas)]:
            meta = {**pod["metadata"], "deletionTimestamp": self.double.now}
            self.double.put("pods", {**pod, "metadata": meta})
        for _ in range(self.replicas - len(pods)):
            self._make()
        for pod in self.pods():
            condition = {"type": "Ready", "status": str(ready)}
            self.double.put("pods", {**pod, "status": {**pod["status"], "conditions": [condition]}})

    def _make(self) -> None:
        self._made += 1
        name = f"{self.name}-{self._made}"
        meta = {
            "uid": f"uid-{name}",
            "name": name,
            "namespace": "serving",
            "labels": {"app": self.name},
        }
        status = {"phase": "Running", "podIP": f"10.0.0.{self._made}"}
        limits = {"nvidia.com/gpu": "1"}
        spec = {"nodeName": "n1", "containers": [{"name": "m", "resources": {"limits": limits}}]}
        self.double.put("pods", {"metadata": meta, "spec": spec, "status": status})


def _cost(pod: dict[str, Any]) -> tuple[int, str]:
    cost = (pod["metadata"].get("annotations") or {}).get(COST, "0")
    return int(cost), pod["metadata"]["name"]
