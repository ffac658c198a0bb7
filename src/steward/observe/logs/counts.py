"""What happened while a stream was read: nothing is left out in silence."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["ReadCounts"]


@dataclass(slots=True, kw_only=True)
class ReadCounts:
    """Counters of one stream; they only grow."""

    stream: str = ""
    format: str = (
        ""  # of its last file; `none`: no line has a time, so that only their order counts
    )
    files: int = 0
    lines: int = 0
    bytes: int = 0  # after unpacking, with line ends
    entries: int = 0
    unparsed: int = 0  # lines without a time of their own
    dropped: int = 0  # of these, those that are in no entry (`preq`: before the first, or broken)
    late: int = 0  # entries that came after later ones had been handed on
    backwards: int = 0  # entries older than one before them
    early: int = 0  # entries handed on before their time, since too much was held
    undecodable: int = 0  # lines that are not UTF-8
    nul: int = 0  # lines with NUL bytes
    cut: int = 0  # lines that were too long, or entries of too many lines
    notes: list[str] = field(default_factory=list)
