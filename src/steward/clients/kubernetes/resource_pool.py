"""A `ResourcePool`: which GPUs of a cluster form a pool, and what of them may be lent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from steward.clients.kubernetes.custom_resources import RESOURCE_POOLS
from steward.clients.kubernetes.objects import WHOLE_GPUS, map_in

__all__ = ["ResourcePool", "pool_of", "resource_pool_from"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcePool:
    """One pool. An empty `node_selector` selects all nodes."""

    uid: str
    name: str
    version: str = ""
    generation: int = 0
    node_selector: Mapping[str, str] = field(default_factory=dict)
    resource_names: tuple[str, ...] = WHOLE_GPUS
    lends: bool = True  # guarantees that nobody uses
    borrower_class: str = ""  # priority class that a borrower has to have; empty: any
    call_back_s: float | None = None  # longest time until a borrower has saved and is gone
    status: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return f"{RESOURCE_POOLS}/{self.name}"

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node with these labels is in it, or pods that select these are."""
        return all(labels.get(key) == value for key, value in self.node_selector.items())

    def may_get(self, selector: Mapping[str, str]) -> bool:
        """Return whether pods with this selector could be placed on its nodes."""
        return all(selector.get(key, value) == value for key, value in self.node_selector.items())

    def count(self, devices: Mapping[str, int]) -> int:
        """Return how many of these devices are of the pool's kinds."""
        return sum(devices.get(name, 0) for name in self.resource_names)


def pool_of(labels: Mapping[str, str], pools: Iterable[ResourcePool]) -> ResourcePool | None:
    """Return the pool of a node: of several, the one that says most, then the first by name."""
    found = [each for each in pools if each.selects(labels)]
    return min(found, key=lambda each: (-len(each.node_selector), each.name), default=None)


def resource_pool_from(raw: Mapping[str, Any]) -> ResourcePool | None:
    """Read a pool; None when it is not one."""
    meta, spec = map_in(raw, "metadata"), map_in(raw, "spec")
    if not meta.get("uid") or not meta.get("name"):
        return None
    names, call_back_s = spec.get("resourceNames"), spec.get("callBackSeconds")
    return ResourcePool(
        uid=str(meta["uid"]),
        name=str(meta["name"]),
        version=str(meta.get("resourceVersion") or ""),
        generation=int(meta.get("generation") or 0),
        node_selector={str(k): str(v) for k, v in map_in(spec, "nodeSelector").items()},
        resource_names=tuple(map(str, names)) if isinstance(names, list) and names else WHOLE_GPUS,
        lends=spec.get("lendIdleGuarantees", True) is True,
        borrower_class=str(spec.get("borrowerPriorityClass") or ""),
        call_back_s=None if call_back_s is None else float(call_back_s),
        status=map_in(raw, "status"),
    )
