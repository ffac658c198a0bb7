"""What passes between the service and the lab's worker. Small, frozen, and easily sent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steward.service.lab.comparison_request import ComparisonRequest

__all__ = ["Finished", "Message", "Progress", "Refused", "Task"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A comparison to carry out; `folder` gets `report.html` and `results.json`."""

    wanted: ComparisonRequest
    folder: Path
    name: str  # of the trace, as people are shown it
    file: Path | None = None  # the uploaded trace; None: the example


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far it is: what is being done, and the share of all replays; None: none has begun."""

    doing: str
    share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """It is done, and the files are there. `record` is the comparison's own."""

    record: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """It cannot be done, and why."""

    problem: str
    where: str = ""
    hint: str = ""


Message = Progress | Finished | Refused
