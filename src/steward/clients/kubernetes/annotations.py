"""What owners and steward write on objects, and who has set a field.

| annotation | written by | meaning |
| --- | --- | --- |
| `steward.dev/saves: "60"` | owner | it saves within 60 s of TERM, and goes on from there |
| `steward.dev/hold: "true"` | owner | it was created suspended for steward, which may start it |
| `steward.dev/elastic: "1-4"` | owner | it goes on with 1 to 4 pods |
| `steward.dev/held` | a person, by `steward jobs hold` | who keeps it from starting, and why |
| `steward.dev/preempted` | a person, by `steward jobs preempt` | when it was stopped last |
| `steward.dev/save-requested` | `steward jobs save`, steward | on pods: save and go on |
| `steward.dev/decision` | steward | the last decision about it, as JSON |

The server notes for each field who has changed it last (`managedFields`). So a Job that a person
has suspended is told apart from one that steward has, also after both did so in turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

__all__ = [
    "DECISION",
    "DOMAIN",
    "DRAINED",
    "ELASTIC",
    "HELD",
    "HOLD",
    "PREEMPTED",
    "SAVES",
    "DecisionNote",
    "annotations_of",
    "decision_note",
    "elastic_range",
    "managers_of",
    "save_time_s",
]

DOMAIN = "steward.dev"
DECISION = f"{DOMAIN}/decision"
DRAINED = f"{DOMAIN}/drained"  # taint of a node that steward drained
SAVES = f"{DOMAIN}/saves"
HOLD = f"{DOMAIN}/hold"  # also the name of our scheduling gate
HELD = f"{DOMAIN}/held"  # the server notes no manager of a field whose value stays the same
PREEMPTED = f"{DOMAIN}/preempted"
ELASTIC = f"{DOMAIN}/elastic"
_RANGE = re.compile(r"(\d{1,5})-(\d{1,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionNote:
    """The last decision that steward has begun about an object."""

    id: str
    did: str  # type of its action
    t_s: float
    why: str = ""

    @property
    def text(self) -> str:
        """Write it as the annotation's value."""
        return json.dumps(asdict(self), separators=(",", ":"))


def decision_note(annotations: Mapping[str, str]) -> DecisionNote | None:
    """Read our annotation; None where there is none, or where somebody has changed it.

    >>> mark = DecisionNote(id="d-1", did="preempt", t_s=12.0)
    >>> decision_note({DECISION: mark.text}) == mark
    True
    >>> decision_note({DECISION: "yes"})
    """
    try:
        raw = json.loads(annotations.get(DECISION, ""))
        return DecisionNote(
            id=str(raw["id"]),
            did=str(raw["did"]),
            t_s=_finite(raw["t_s"]),
            why=str(raw.get("why", "")),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return None


def _finite(value: float | str) -> float:
    found = float(value)
    if not isfinite(found):
        raise ValueError(value)
    return found


def save_time_s(annotations: Mapping[str, str]) -> float | None:
    """Return how long it needs to save; None: it has not said that it can.

    >>> [save_time_s({SAVES: said}) for said in ("90", "soon", "-1")]
    [90.0, None, None]
    """
    said = annotations.get(SAVES, "")
    return float(said) if said.isdecimal() and len(said) < 6 else None


def elastic_range(annotations: Mapping[str, str]) -> tuple[int, int] | None:
    """Return with how few and how many pods it can go on; None: it has not said so.

    >>> [elastic_range({ELASTIC: said}) for said in ("1-4", "4-1", "4")]
    [(1, 4), None, None]
    """
    found = _RANGE.fullmatch(annotations.get(ELASTIC, ""))
    if not found or not 0 < int(found[1]) <= int(found[2]):
        return None
    return int(found[1]), int(found[2])


def annotations_of(meta: Mapping[str, Any]) -> dict[str, str]:
    """Return those annotations that are ours; others may be large."""
    found = meta.get("annotations")
    ours = found.items() if isinstance(found, dict) else ()
    return {str(key): str(value) for key, value in ours if str(key).startswith(f"{DOMAIN}/")}


def managers_of(meta: Mapping[str, Any], field: str) -> frozenset[str]:
    """Return who has set `spec.FIELD`, by the server's notes; nobody where it keeps none."""
    entries = meta.get("managedFields")
    found = set()
    for each in entries if isinstance(entries, list) else ():
        fields = each.get("fieldsV1") if isinstance(each, dict) else None
        spec = fields.get("f:spec") if isinstance(fields, dict) else None
        if isinstance(spec, dict) and f"f:{field}" in spec:
            found.add(str(each.get("manager") or ""))
    return frozenset(found)
