"""A node of Slurm: 22.05's sinfo, and scontrol's JSON since 23.02."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steward.clients.slurm.syntax import Gres, gres, number, upper_names

__all__ = ["SlurmNode", "node_from_json"]

MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """One node. `states` has its state and the flags on it, in upper case."""

    name: str
    states: tuple[str, ...]
    reason: str
    reason_s: float | None
    cpus: int
    memory_bytes: int
    gres: tuple[Gres, ...]


def node_from_json(raw: Mapping[str, Any]) -> SlurmNode | None:
    """Read one entry of `nodes`; None when it is not one, or only planned."""
    name = raw.get("name")
    states = (*upper_names(raw.get("state")), *upper_names(raw.get("state_flags")))
    if not isinstance(name, str) or not name or "FUTURE" in states:
        return None
    reason, resources = raw.get("reason"), raw.get("gres")
    return SlurmNode(
        name=name,
        states=states,
        reason=reason if isinstance(reason, str) else "",
        reason_s=number(raw.get("reason_changed_at")) or None,
        cpus=int(number(raw.get("cpus")) or 0),
        memory_bytes=int((number(raw.get("real_memory")) or 0.0) * MIB),
        gres=gres(resources if isinstance(resources, str) else ""),
    )
