"""Times of log lines: formats, parsing, and detection.

Belongs here: from bytes of lines to nanoseconds since 1970. Does not: where the bytes come from,
and what happens to lines without a time (`observe.logs`).
"""

from __future__ import annotations

from steward.observe.logs.formats.detection import Detected, detect
from steward.observe.logs.formats.layouts import Stamp, stamp
from steward.observe.logs.formats.line_times import NO_TIME, LineTimes, Years
from steward.observe.logs.formats.table import PREQ, STRICT, Format

__all__ = [
    "NO_TIME",
    "PREQ",
    "STRICT",
    "Detected",
    "Format",
    "LineTimes",
    "Stamp",
    "Years",
    "detect",
    "stamp",
]
