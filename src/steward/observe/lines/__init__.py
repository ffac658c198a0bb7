"""Lines that programs and the kernel wrote: which of them are events, and whose they are.

Belongs here: what a single line means, and keeping floods of the same line away. Does not: reading
lines (`clients.logs`), or what several lines mean together (the rules, in `decide`).
"""

from __future__ import annotations

from steward.observe.lines.sieve import KERNEL, Sieve
from steward.observe.lines.signs import SIGNS, Match, matched
from steward.observe.lines.subjects import Subjects

__all__ = ["KERNEL", "SIGNS", "Match", "Sieve", "Subjects", "matched"]
