"""What tools take and what a tool is."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from steward.questions.facts import Reply
from steward.questions.records import Records
from steward.questions.wording import moment

__all__ = ["Arguments", "Span", "Tool", "WindowArguments"]

_LAST = re.compile(r"(\d{1,4})\s*(min|h|d|w)")
_UNITS = {"min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
Name = Field("", max_length=200)


class Arguments(BaseModel):
    """Arguments of a tool: nothing else is taken."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of time and how sentences call it."""

    from_s: float
    to_s: float
    words: str


class WindowArguments(Arguments):
    """Arguments that end in a stretch of time: `last` before now, or from and to."""

    last: str = Field(
        "", max_length=10, description="the time before now: 30min, 6h, 7d, 2w; empty: all of it"
    )
    from_s: float | None = Field(None, description="begin, in seconds since 1970, instead of last")
    to_s: float | None = Field(None, description="end, in seconds since 1970")

    def span(self, records: Records, default: str = "") -> Span:
        """Return the time that is meant; `default` where none is given, "" for all of it."""
        now_s = records.now_s
        if self.from_s is not None:
            to_s = now_s if self.to_s is None else self.to_s
            words = f"between {moment(self.from_s)} and {moment(to_s)}"
            return Span(from_s=self.from_s, to_s=to_s, words=words)
        found = _LAST.fullmatch(self.last.strip() or default)
        if found is None:
            return Span(from_s=0.0, to_s=now_s, words="so far")
        seconds = int(found[1]) * _UNITS[found[2]]
        return Span(
            from_s=now_s - seconds, to_s=now_s, words=f"in the last {_said(*found.groups())}"
        )


def _said(count: str, unit: str) -> str:
    name = {"min": "minute", "h": "hour", "d": "day", "w": "week"}[unit]
    return name if count == "1" else f"{count} {name}s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One read-only tool: for the grammar, for a model that plans, and for other assistants."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    run: Callable[[Records, Any], Reply]
