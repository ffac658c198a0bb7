"""Lines that programs and the kernel wrote: which of them are events, and whose they are.

Belongs here: what a single line means, and keeping floods of the same line away. Does not: reading
lines (`clients.logs`), or what several lines mean together (the rules, in `decide`).
"""

from __future__ import annotations

from steward.observe.lines.entities import EntityResolver
from steward.observe.lines.kernel_patterns import KERNEL_PATTERNS, KernelMatch, matched
from steward.observe.lines.line_filter import KERNEL, LineFilter

__all__ = ["KERNEL", "KERNEL_PATTERNS", "EntityResolver", "KernelMatch", "LineFilter", "matched"]
