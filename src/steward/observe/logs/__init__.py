"""Reads what programs have written as columns: lines, their times, and which belong together.

Belongs here: formats of logs, finding out which one a file has, packed and rotated files, parcels
of container engines, following files, and what was lost on the way. Does not: what a line means
(`observe.lines`, and the rules in `decide.rules`).
"""

from __future__ import annotations

from steward.observe.logs.blocks import read_blocks
from steward.observe.logs.entries import Reading
from steward.observe.logs.following import Following, follow, follow_pipe
from steward.observe.logs.formats import Stamp, stamp
from steward.observe.logs.opening import Source
from steward.observe.logs.streams import Found, stream_of, streams_of
from steward.observe.logs.tally import Tally

__all__ = [
    "Following",
    "Found",
    "Reading",
    "Source",
    "Stamp",
    "Tally",
    "follow",
    "follow_pipe",
    "read_blocks",
    "stamp",
    "stream_of",
    "streams_of",
]
