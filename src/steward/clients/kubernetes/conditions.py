"""Conditions of our own resources, which keep since when they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["condition"]


def condition(  # noqa: PLR0913 - the fields that a condition has
    status: Mapping[str, Any],
    type_: str,
    *,
    holds: bool,
    reason: str,
    why: str,
    now: str,
    generation: int,
) -> dict[str, Any]:
    """Return a condition as it should be; one that held before keeps its time."""
    found = status.get("conditions")
    before = [
        each
        for each in (found if isinstance(found, list) else ())
        if isinstance(each, dict) and each.get("type") == type_
    ]
    value = "True" if holds else "False"
    kept = before[0].get("lastTransitionTime") if before else None
    same = bool(before) and before[0].get("status") == value
    return {
        "type": type_,
        "status": value,
        "reason": reason,
        "message": why,
        "lastTransitionTime": kept if same and kept else now,
        "observedGeneration": generation,
    }
