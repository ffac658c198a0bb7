"""Reads what programs have written as columns: lines, their times, and which belong together.

Belongs here: formats of logs, finding out which one a file has, packed and rotated files, parcels
of container engines, following files, and what was lost on the way. Does not: what a line means
(`observe.lines`, and the rules in `decide.rules`).
"""

from __future__ import annotations

from steward.observe.logs.blocks import read_blocks
from steward.observe.logs.counts import ReadCounts
from steward.observe.logs.entries import Reading
from steward.observe.logs.follower import Following, follow, follow_pipe
from steward.observe.logs.formats import Stamp, stamp
from steward.observe.logs.sources import Source
from steward.observe.logs.streams import StreamListing, stream_of, streams_of

__all__ = [
    "Following",
    "ReadCounts",
    "Reading",
    "Source",
    "Stamp",
    "StreamListing",
    "follow",
    "follow_pipe",
    "read_blocks",
    "stamp",
    "stream_of",
    "streams_of",
]
